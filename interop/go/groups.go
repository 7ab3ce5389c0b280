package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// source sends numbered messages to the queues in turn until finished.
type source struct {
	mutex sync.Mutex
	sent  int
	stop  chan struct{}
	done  chan any
}

func newSource(sender rocketmq.Producer, queues []*primitive.MessageQueue, pause time.Duration) *source {
	s := &source{stop: make(chan struct{}), done: make(chan any, 1)}
	go func() {
		defer func() { s.done <- recover() }()
		for number := 0; ; number++ {
			select {
			case <-s.stop:
				return
			case <-time.After(pause):
			}
			sendText(sender, queues[number%len(queues)], "", strconv.Itoa(number))
			s.mutex.Lock()
			s.sent = number + 1
			s.mutex.Unlock()
		}
	}()
	return s
}

func (s *source) count() int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.sent
}

func (s *source) finish() int {
	close(s.stop)
	if reason := <-s.done; reason != nil {
		fail("send: %v", reason)
	}
	return s.count()
}

// queuesSince counts the queues whose messages from a number on came to this inbox.
func (b *inbox) queuesSince(number int) int {
	queues := map[int]bool{}
	for _, one := range b.snapshot() {
		if n, _ := strconv.Atoi(string(one.Body)); n >= number {
			queues[one.Queue.QueueId] = true
		}
	}
	return len(queues)
}

// rebalance watches who gets new messages, since this client does not tell which queues it owns.
func rebalance(s *stage) string {
	queues := s.createTopic(8)
	sender := s.producer(toNamedQueue())
	var first, second inbox
	s.push(s.group, "first", "*", first.listen)
	messages := newSource(sender, queues, 2*time.Millisecond)
	await("messages of 8 queues by the first", func() bool { return first.queuesSince(0) == 8 }, func() any { return first.queuesSince(0) })

	start := time.Now()
	leaving := s.push(s.group, "second", "*", second.listen)
	await("messages of 4 queues by the second", func() bool { return second.queuesSince(0) == 4 }, func() any { return second.queuesSince(0) })
	joined := time.Since(start)

	start = time.Now()
	must(leaving.Shutdown())
	mark := messages.count()
	await("new messages of 8 queues by the first", func() bool { return first.queuesSince(mark) == 8 }, func() any { return first.queuesSince(mark) })
	left := time.Since(start)
	await("80 more messages", func() bool { return messages.count() > mark+80 }, func() any { return messages.count() })
	sent := messages.finish()
	all := func() int {
		seen := map[string]bool{}
		for _, text := range append(first.bodies(), second.bodies()...) {
			seen[text] = true
		}
		return len(seen)
	}
	await(fmt.Sprintf("every one of %d messages", sent), func() bool { return all() == sent }, func() any { return all() })
	twice := len(first.snapshot()) + len(second.snapshot()) - sent
	return fmt.Sprintf("%d messages, %d of them twice, joined in %.2f s, left in %.2f s", sent, twice, joined.Seconds(), left.Seconds())
}

// delivery is one message in the hands of an orderly listener.
type delivery struct {
	member   string
	sequence int
}

// order has the deliveries to the orderly listeners of both members.
type order struct {
	mutex      sync.Mutex
	deliveries map[int][]delivery
	inside     map[int]int
	suspended  map[int]bool
	overlap    string
}

func (o *order) listen(member string) listener {
	return func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		queue := messages[0].Queue.QueueId
		o.enter(queue, member)
		time.Sleep(100 * time.Microsecond)
		o.mutex.Lock()
		defer o.mutex.Unlock()
		o.inside[queue]--
		for _, one := range messages {
			number, _ := strconv.Atoi(string(one.Body))
			if number/4 == 20 && !o.suspended[queue] { // asks for this message again, nothing may pass it
				o.suspended[queue] = true
				return consumer.SuspendCurrentQueueAMoment, nil
			}
			o.deliveries[queue] = append(o.deliveries[queue], delivery{member, number / 4})
		}
		return consumer.ConsumeSuccess, nil
	}
}

func (o *order) enter(queue int, member string) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.inside[queue]++
	if o.inside[queue] != 1 {
		o.overlap = fmt.Sprintf("queue %d in %s", queue, member)
	}
}

// by counts the distinct messages that a member, or any member, got.
func (o *order) by(member string) int {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	seen := map[[2]int]bool{}
	for queue, deliveries := range o.deliveries {
		for _, one := range deliveries {
			if member == "" || one.member == member {
				seen[[2]int{queue, one.sequence}] = true
			}
		}
	}
	return len(seen)
}

// inOrder checks that a queue has no gaps and goes back only where the other member took over. It returns the number of repeated messages.
func (o *order) inOrder(queue int) int {
	last, again := delivery{"", -1}, 0
	for _, next := range o.deliveries[queue] {
		repeats := next.sequence <= last.sequence && next.member != last.member
		if next.sequence != last.sequence+1 && !repeats {
			fail("queue %d: %v after %v", queue, next, last)
		}
		if repeats {
			again += last.sequence - next.sequence + 1
		}
		last = next
	}
	return again
}

// orderly has one member follow the other: this client gives up its locks only when it leaves.
func orderly(s *stage) string {
	queues := s.createTopic(4)
	sender := s.producer(toNamedQueue())
	shared := &order{deliveries: map[int][]delivery{}, inside: map[int]int{}, suspended: map[int]bool{}}
	join := func(name string) rocketmq.PushConsumer {
		return s.push(s.group, name, "*", shared.listen(name), consumer.WithConsumerOrder(true),
			consumer.WithSuspendCurrentQueueTimeMillis(100*time.Millisecond))
	}
	leaving := join("first")
	messages := newSource(sender, queues, time.Millisecond)
	progress := func() any { return shared.by("") }
	await("200 messages by the first", func() bool { return shared.by("first") >= 200 }, progress)
	must(leaving.Shutdown())
	start := time.Now()
	join("second")
	await("200 messages by the second", func() bool { return shared.by("second") >= 200 }, progress)
	sent := messages.finish()
	await(fmt.Sprint(sent, " messages"), func() bool { return shared.by("") == sent }, progress)
	again := 0
	for _, queue := range queues {
		again += shared.inOrder(queue.QueueId)
	}
	equal("", shared.overlap, "queue with two deliveries at a time")
	equal(4, len(shared.suspended), "queues that were suspended once")
	return fmt.Sprintf("%d messages in 4 queues, %d again after the move, 200 more within %.2f s of it", sent, again, time.Since(start).Seconds())
}

func deadLetter(s *stage) string {
	queues := s.createTopic(2)
	sender := s.producer(toNamedQueue())
	// The heartbeat of a first member creates the retry topic, which a member that starts without it looks for every 30 s.
	must(s.push(s.group, "0", "TagA || TagB", new(inbox).listen).Shutdown())
	var mutex sync.Mutex
	deliveries := map[string][]*primitive.MessageExt{}
	times := map[string][]time.Time{}
	s.push(s.group, "1", "TagA || TagB", func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		mutex.Lock()
		defer mutex.Unlock()
		one := messages[0] // one at a time by default
		text := string(one.Body)
		deliveries[text] = append(deliveries[text], one)
		times[text] = append(times[text], time.Now())
		if text == "good" || text == "once" && one.ReconsumeTimes > 0 {
			return consumer.ConsumeSuccess, nil
		}
		return consumer.ConsumeRetryLater, nil
	}, consumer.WithMaxReconsumeTimes(1))
	answers := map[string]*primitive.SendResult{}
	for i, text := range []string{"good", "once", "bad 1", "bad 2", "bad 3"} {
		one := primitive.NewMessage(s.topic, []byte(text)).WithTag("TagB").WithKeys([]string{"key of " + text})
		one.WithProperty("имя", text)
		one.Queue = queues[i%2]
		answer, err := sender.SendSync(patient, one)
		must(err)
		answers[text] = answer
	}
	again := func() int {
		mutex.Lock()
		defer mutex.Unlock()
		count := 0
		for _, list := range deliveries {
			if second(list) > 0 {
				count++
			}
		}
		return count
	}
	await("second deliveries of 4 messages", func() bool { return again() == 4 }, func() any { return again() })
	mutex.Lock()
	slowest := time.Duration(0)
	for text, list := range deliveries {
		if text == "good" {
			equal(1, len(list), "deliveries of the good message")
			continue
		}
		redelivered(s, answers[text], list[0], list[second(list)])
		waited := times[text][second(list)].Sub(times[text][0])
		slowest = max(slowest, waited)
		equal(true, waited >= 9*time.Second, fmt.Sprintf("delay level 3 is 10 s, %s came after %v", text, waited))
	}
	mutex.Unlock()
	deadLetters(s, answers)
	return fmt.Sprintf("1 succeeds at the second try, 3 dead letters, 10 s took up to %d ms", slowest.Milliseconds())
}

// second finds the delivery after the first one, 0 if there is none. The client gives a message back twice if the broker is late.
func second(list []*primitive.MessageExt) int {
	return max(0, slices.IndexFunc(list, func(one *primitive.MessageExt) bool { return one.ReconsumeTimes == 1 }))
}

func redelivered(s *stage, answer *primitive.SendResult, first, second *primitive.MessageExt) {
	text := string(first.Body)
	equal(int32(0), first.ReconsumeTimes, "reconsume times at first, "+text)
	equal(int32(1), second.ReconsumeTimes, "reconsume times at second, "+text)
	equal(s.topic, second.GetProperty("RETRY_TOPIC"), "RETRY_TOPIC, "+text)
	equal(answer.OffsetMsgID, second.GetProperty("ORIGIN_MESSAGE_ID"), "ORIGIN_MESSAGE_ID, "+text)
	equal(answer.MsgID, second.MsgId, "message id, "+text)
	copied(first.GetTags(), text, second)
}

func copied(tag, text string, copy *primitive.MessageExt) {
	equal(text, string(copy.Body), "body of the copy")
	equal(tag, copy.GetTags(), "tags of the copy of "+text)
	equal("key of "+text, copy.GetKeys(), "keys of the copy of "+text)
	equal(text, copy.GetProperty("имя"), "user property of the copy of "+text)
}

func deadLetters(s *stage, answers map[string]*primitive.SendResult) {
	dead := &stage{namesrv: s.namesrv, broker: s.broker, topic: "%DLQ%" + s.group}
	queue := dead.awaitRoute(1)[0]
	reader, letters := s.puller(dead.topic, s.group+"_R", "1"), map[string]*primitive.MessageExt{}
	await("3 dead letters", func() bool {
		for _, letter := range readQueue(reader, queue, 3) {
			letters[letter.MsgId] = letter
		}
		return len(letters) >= 3
	}, func() any { return len(letters) })
	equal(3, len(letters), "dead letters")
	for _, letter := range letters {
		text := string(letter.Body)
		copied("TagB", text, letter)
		equal(int32(2), letter.ReconsumeTimes, "reconsume times of dead letter "+text)
		equal(s.topic, letter.GetProperty("RETRY_TOPIC"), "RETRY_TOPIC of dead letter "+text)
		equal(answers[text].OffsetMsgID, letter.GetProperty("ORIGIN_MESSAGE_ID"), "ORIGIN_MESSAGE_ID of dead letter "+text)
		equal(answers[text].MsgID, letter.MsgId, "message id of dead letter "+text)
	}
}
