package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// storedOffset asks the broker for a group's offset in a queue (code 14), which this client does not show; -1 if it has none.
func (s *stage) storedOffset(group string, queue *primitive.MessageQueue) int64 {
	connection, err := net.DialTimeout("tcp", s.broker, 30*time.Second)
	must(err)
	defer connection.Close()
	header, err := json.Marshal(map[string]any{"code": 14, "language": "GO", "version": 0, "opaque": 1, "flag": 0, "extFields": map[string]string{
		"consumerGroup": group, "topic": queue.Topic, "queueId": strconv.Itoa(queue.QueueId), "setZeroIfNotFound": "false"}})
	must(err)
	frame := binary.BigEndian.AppendUint32(nil, uint32(4+len(header)))
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(header)))
	_, err = connection.Write(append(frame, header...))
	must(err)
	lengths := make([]byte, 8)
	_, err = io.ReadFull(connection, lengths)
	must(err)
	answer := make([]byte, binary.BigEndian.Uint32(lengths)-4)
	_, err = io.ReadFull(connection, answer)
	must(err)
	var found struct {
		Code      int
		ExtFields struct{ Offset string }
	}
	must(json.Unmarshal(answer[:binary.BigEndian.Uint32(lengths[4:])], &found))
	if found.Code != 0 {
		return -1
	}
	offset, err := strconv.ParseInt(found.ExtFields.Offset, 10, 64)
	must(err)
	return offset
}

// awaitStored waits until the broker has this offset of a group in each queue: clients store them one-way from time to time.
func (s *stage) awaitStored(group string, queues []*primitive.MessageQueue, offset int64) {
	for _, queue := range queues {
		found := func() int64 { return s.storedOffset(group, queue) }
		await(fmt.Sprintf("the stored offset %d of %v", offset, queue), func() bool { return found() == offset },
			func() any { return found() })
	}
}
