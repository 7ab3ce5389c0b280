package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

func resume(s *stage) string {
	queues := s.createTopic(4)
	sender := s.producer(toNamedQueue())
	var before, throughout, after inbox
	s.push(s.group+"_lasting", "1", "*", throughout.listen)
	leaving := s.push(s.group, "1", "*", before.listen)
	sendNumbers(patient, sender, queues, 0, 200)
	before.await(200, "messages")
	throughout.await(200, "messages by the other group")
	s.awaitStored(s.group, queues, 50)
	must(leaving.Shutdown())
	sendNumbers(patient, sender, queues, 200, 260)

	s.awaitStored(s.group, queues, 50)
	ask("restart")
	s.awaitStored(s.group, queues, 50)
	sendNumbers(background, sender, queues, 260, 320) // the client does not notice that a request went to an ended connection
	s.push(s.group, "2", "*", after.listen)
	after.await(120, "messages after the restart")
	throughout.await(320, "messages by the consumer that stayed")
	onceEach(&before, 0, 200, "before the restart")
	onceEach(&after, 200, 320, "after the restart")
	return fmt.Sprintf("200 before, 120 after, %d repeated for the consumer that stayed", len(throughout.snapshot())-320)
}

func sendNumbers(timeout context.Context, sender rocketmq.Producer, queues []*primitive.MessageQueue, from, to int) {
	for i := from; i < to; i++ {
		answer := sendTextWithin(timeout, sender, queues[i%len(queues)], "", strconv.Itoa(i))
		if expected := int64(i / len(queues)); answer.QueueOffset < expected || timeout == patient && answer.QueueOffset > expected {
			fail("queue offset of message %d: %d", i, answer.QueueOffset)
		}
	}
}

// onceEach checks that the box holds the messages of these numbers, each once, and no others.
func onceEach(box *inbox, from, to int, when string) {
	found := counts(box)
	var wrong []string
	for i := from; i < to; i++ {
		if text := strconv.Itoa(i); found[text] != 1 {
			wrong = append(wrong, fmt.Sprintf("%s came %d times", text, found[text]))
		}
		delete(found, strconv.Itoa(i))
	}
	for text, times := range found {
		wrong = append(wrong, fmt.Sprintf("%s came %d times", text, times))
	}
	if len(wrong) > 0 {
		fail("%d messages %s are wrong: %v", len(wrong), when, wrong)
	}
}

func counts(box *inbox) map[string]int {
	all := map[string]int{}
	for _, text := range box.bodies() {
		all[text]++
	}
	return all
}

// loader has one message in flight on a queue of its own; a failed send is never repeated under its number.
type loader struct {
	queue        *primitive.MessageQueue
	attempts     int
	acknowledged map[int]*primitive.SendResult
}

func content(queue, number int) []byte {
	return []byte(fmt.Sprintf("%d:%d:%s", queue, number, strings.Repeat("x", number*37%700)))
}

func (l *loader) run(sender rocketmq.Producer, total *atomic.Int64, stop *atomic.Bool) {
	for !stop.Load() {
		number := l.attempts
		l.attempts++
		one := primitive.NewMessage(l.queue.Topic, content(l.queue.QueueId, number))
		one.Queue = l.queue
		answer, err := sender.SendSync(background, one)
		if err == nil && answer.Status == primitive.SendOK {
			l.acknowledged[number] = answer
			total.Add(1)
		} else {
			time.Sleep(20 * time.Millisecond)
		}
	}
}

func kill(s *stage) string {
	queues := s.createTopic(8)
	sender := s.producer(toNamedQueue(), producer.WithRetry(0))
	var total atomic.Int64
	var stop atomic.Bool
	var running sync.WaitGroup
	var loaders []*loader
	for _, queue := range queues {
		one := &loader{queue: queue, acknowledged: map[int]*primitive.SendResult{}}
		loaders = append(loaders, one)
		running.Add(1)
		go func() { defer running.Done(); one.run(sender, &total, &stop) }()
	}
	progress := func() any { return total.Load() }
	await("4000 acknowledged messages", func() bool { return total.Load() > 4000 }, progress)
	ask("kill9")
	mark := total.Load()
	await("1000 more acknowledged messages", func() bool { return total.Load() > mark+1000 }, progress)
	stop.Store(true)
	running.Wait()
	reader := s.puller(s.topic, s.group+"_R", "1")
	extra := 0
	for _, one := range loaders {
		extra += one.complete(readQueue(reader, one.queue, len(one.acknowledged)))
	}
	return fmt.Sprintf("%d acknowledged, %d stored without an answer", total.Load(), extra)
}

// complete checks that no acknowledged message is missing or moved, and that no message is out of order, stored twice or invented.
func (l *loader) complete(stored []*primitive.MessageExt) int {
	where := fmt.Sprintf(" in queue %d", l.queue.QueueId)
	found, last := 0, -1
	for _, one := range stored {
		number, err := strconv.Atoi(strings.Split(string(one.Body), ":")[1])
		must(err)
		if number <= last || number >= l.attempts {
			fail("message %d after %d, %d were sent%s", number, last, l.attempts, where)
		}
		equalBytes(content(l.queue.QueueId, number), one.Body, fmt.Sprintf("body of message %d%s", number, where))
		if answer, known := l.acknowledged[number]; known {
			equal(answer.QueueOffset, one.QueueOffset, fmt.Sprintf("acknowledged offset of message %d%s", number, where))
			equal(answer.MsgID, one.MsgId, fmt.Sprintf("acknowledged id of message %d%s", number, where))
			found++
		}
		last = number
	}
	equal(len(l.acknowledged), found, "acknowledged messages that are stored"+where)
	return len(stored) - found
}
