package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand"
	"strings"
	"sync"

	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// Properties that client or broker add on their own.
var added = map[string]bool{"UNIQ_KEY": true, "WAIT": true, "MSG_REGION": true, "TRACE_ON": true, "CLUSTER": true,
	"MIN_OFFSET": true, "MAX_OFFSET": true}

func body(number int) []byte {
	switch number % 3 {
	case 0:
		return []byte(fmt.Sprintf("plain body %d", number))
	case 1:
		return []byte(fmt.Sprintf("тело сообщения № %d 消息 🚀", number))
	default:
		all := make([]byte, 256+number)
		for i := range all {
			all[i] = byte(i)
		}
		return all
	}
}

// message depends on its number in every field, with text outside ASCII.
func message(topic string, number int) *primitive.Message {
	one := primitive.NewMessage(topic, body(number))
	if number%4 == 3 {
		one.WithTag("标签")
	} else {
		one.WithTag(fmt.Sprintf("Tag%d", number%4))
	}
	one.WithKeys([]string{fmt.Sprintf("key-%d", number), fmt.Sprintf("ключ%d", number)})
	one.Flag = int32(number * 7)
	one.WithProperty("number", fmt.Sprint(number))
	one.WithProperty("имя", fmt.Sprintf("значение = %d", number))
	return one
}

// same compares a message that was read with the one that was sent.
func same(sent *primitive.Message, read *primitive.MessageExt) {
	what := "message " + sent.GetProperty("number")
	equalBytes(sent.Body, read.Body, "body of "+what)
	equal(sent.Flag, read.Flag, "flag of "+what)
	equal(int32(0), read.ReconsumeTimes, "reconsume times of "+what)
	equal(own(sent.GetProperties()), own(read.GetProperties()), "properties of "+what)
	equal(strings.Fields(sent.GetKeys()), strings.Fields(read.GetKeys()), "keys of "+what)
}

func own(properties map[string]string) map[string]string {
	left := map[string]string{}
	for key, value := range properties {
		if !added[key] {
			left[key] = value
		}
	}
	return left
}

// located compares a message that was read with the answer its sender got.
func located(answer *primitive.SendResult, read *primitive.MessageExt) {
	equal(primitive.SendOK, answer.Status, "send status")
	equal(answer.MsgID, read.MsgId, "message id in the answer")
	equal(answer.OffsetMsgID, read.OffsetMsgId, "offset message id in the answer")
	equal(answer.QueueOffset, read.QueueOffset, "queue offset in the answer")
	equal(answer.MessageQueue.QueueId, read.Queue.QueueId, "queue id in the answer")
	equal("DefaultRegion", answer.RegionID, "region in the answer")
}

// sendSync reads every field back and checks the place that the answer names.
func sendSync(s *stage) string {
	sender := s.producer()
	sent := map[string]*primitive.Message{}
	answers := map[string]*primitive.SendResult{}
	counts := map[int]int{}
	for i := 0; i < 60; i++ {
		one := message(s.topic, i)
		answer, err := sender.SendSync(patient, one)
		must(err)
		sent[answer.MsgID], answers[answer.MsgID] = one, answer
		counts[answer.MessageQueue.QueueId]++
	}
	queues := s.awaitRoute(4) // created by the first send from TBW102
	reader := s.puller(s.topic, s.group+"_R", "1")
	read := 0
	for _, queue := range queues {
		if counts[queue.QueueId] == 0 {
			continue // a pull of an empty queue waits 20 s
		}
		for _, one := range readQueue(reader, queue, counts[queue.QueueId]) {
			same(sent[one.MsgId], one)
			located(answers[one.MsgId], one)
			equal(portOf(s.broker), portOf(one.StoreHost), "port of the store host")
			read++
		}
	}
	equal(60, read, "messages read")
	return fmt.Sprintf("60 messages in %d of 4 created queues", len(counts))
}

func portOf(address string) string {
	return address[strings.LastIndexByte(address, ':'):]
}

func sendAsync(s *stage) string {
	queues := s.createTopic(8)
	sender := s.producer(toNamedQueue())
	const count = 500
	sent := make([]*primitive.Message, count)
	answers := make([]*primitive.SendResult, count)
	failures := make([]error, count)
	var left sync.WaitGroup
	for i := range sent {
		sent[i] = message(s.topic, i)
		sent[i].Queue = queues[i%8]
		left.Add(1)
		must(sender.SendAsync(patient, func(_ context.Context, answer *primitive.SendResult, err error) {
			answers[i], failures[i] = answer, err
			left.Done()
		}, sent[i]))
	}
	left.Wait()
	for i, failure := range failures {
		if failure != nil {
			fail("asynchronous send %d: %v", i, failure)
		}
	}
	reader := s.puller(s.topic, s.group+"_R", "1")
	seen := map[string]bool{}
	for _, queue := range queues {
		for _, one := range readQueue(reader, queue, 0) {
			number := one.GetProperty("number")
			equal(false, seen[number], "message "+number+" seen before")
			seen[number] = true
			var i int
			_, err := fmt.Sscan(number, &i)
			must(err)
			equal(i%8, one.Queue.QueueId, "queue that was asked for")
			same(sent[i], one)
			located(answers[i], one)
		}
	}
	equal(count, len(seen), "messages read")
	return fmt.Sprintf("%d callbacks, 8 chosen queues", count)
}

func sendOneWay(s *stage) string {
	queues := s.createTopic(2)
	sender := s.producer(toNamedQueue())
	sent := map[string]*primitive.Message{}
	for i := 0; i < 100; i++ {
		one := message(s.topic, i)
		one.Queue = queues[i%2]
		must(sender.SendOneWay(patient, one))
		sent[fmt.Sprint(i)] = one
	}
	reader := s.puller(s.topic, s.group+"_R", "1")
	seen := map[string]bool{}
	for _, queue := range queues {
		for _, one := range readQueue(reader, queue, 50) {
			same(sent[one.GetProperty("number")], one)
			seen[one.GetProperty("number")] = true
		}
	}
	equal(100, len(seen), "messages read")
	return "100 messages"
}

func sendBatch(s *stage) string {
	queues := s.createTopic(4)
	sender := s.producer()
	expected := map[int][]*primitive.Message{}
	for round := 0; round < 6; round++ {
		var batch []*primitive.Message
		for i := 0; i < 50; i++ {
			batch = append(batch, message(s.topic, round*50+i))
		}
		answer, err := sender.SendSync(patient, batch...)
		must(err)
		equal(primitive.SendOK, answer.Status, "send status of a batch")
		id := answer.MessageQueue.QueueId
		equal(int64(len(expected[id])), answer.QueueOffset, "queue offset of a batch's first message")
		equal(50, len(strings.Split(answer.OffsetMsgID, ",")), "offset message ids of a batch")
		expected[id] = append(expected[id], batch...)
	}
	reader := s.puller(s.topic, s.group+"_R", "1")
	for id, sent := range expected {
		read := readQueue(reader, queues[id], len(sent))
		equal(len(sent), len(read), fmt.Sprintf("messages in queue %d", id))
		for i := range sent {
			same(sent[i], read[i])
		}
	}
	return "6 batches of 50"
}

func compression(s *stage) string {
	queue := s.createTopic(1)[0]
	sender := s.producer(toNamedQueue())
	text := []byte(strings.Repeat("a body that repeats itself, тело 正文; ", 2000))
	one := primitive.NewMessage(s.topic, bytes.Clone(text))
	one.Queue = queue
	_, err := sender.SendSync(patient, one)
	must(err)
	read := readQueue(s.puller(s.topic, s.group+"_R", "1"), queue, 1)[0]
	equalBytes(text, read.Body, "body")
	equal(int32(primitive.FlagCompressed), read.SysFlag&primitive.FlagCompressed, "compressed flag")
	equal(true, int(read.StoreSize) < len(text)/10, fmt.Sprintf("stored in few bytes (%d)", read.StoreSize))
	return "zlib"
}

func largeBody(s *stage) string {
	queue := s.createTopic(1)[0]
	sender := s.producer(toNamedQueue())
	noise := make([]byte, 4<<20-8<<10)
	rand.New(rand.NewSource(4)).Read(noise)
	for i := 0; i < 3; i++ {
		one := primitive.NewMessage(s.topic, bytes.Clone(noise))
		one.Queue = queue
		_, err := sender.SendSync(patient, one.WithTag("Большой"))
		must(err)
	}
	for _, one := range readQueue(s.puller(s.topic, s.group+"_R", "1"), queue, 3) {
		equalBytes(noise, one.Body, "body")
		equal("Большой", one.GetTags(), "tags")
	}
	tooLarge := primitive.NewMessage(s.topic, make([]byte, 5<<20))
	tooLarge.Queue, tooLarge.Compress, tooLarge.CompressedBody = queue, true, make([]byte, 5<<20)
	_, err := sender.SendSync(patient, tooLarge)
	equal(true, err != nil && strings.Contains(err.Error(), "CODE: 13"), fmt.Sprintf("5 MiB are refused with code 13 (%v)", err))
	return fmt.Sprintf("3 bodies of %d bytes, 5 MiB refused", len(noise))
}
