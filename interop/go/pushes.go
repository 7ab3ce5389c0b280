package main

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// inbox keeps every message a listener gets.
type inbox struct {
	mutex    sync.Mutex
	messages []*primitive.MessageExt
}

func (b *inbox) listen(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.messages = append(b.messages, messages...)
	return consumer.ConsumeSuccess, nil
}

func (b *inbox) snapshot() []*primitive.MessageExt {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return append([]*primitive.MessageExt(nil), b.messages...)
}

// bodies returns all texts received, sorted, without the records that a repeated send stored.
func (b *inbox) bodies() []string {
	texts, places := []string{}, map[string]string{}
	for _, one := range b.snapshot() {
		text, place := string(one.Body), fmt.Sprint(one.Queue.QueueId, one.QueueOffset)
		if places[text] == "" {
			places[text] = place
		}
		if places[text] == place {
			texts = append(texts, text)
		}
	}
	sort.Strings(texts)
	return texts
}

func (b *inbox) distinct() int {
	seen := map[string]bool{}
	for _, text := range b.bodies() {
		seen[text] = true
	}
	return len(seen)
}

func (b *inbox) await(count int, what string) {
	await(fmt.Sprintf("%d %s", count, what), func() bool { return b.distinct() >= count }, func() any { return b.distinct() })
}

func sendText(sender rocketmq.Producer, queue *primitive.MessageQueue, tag, text string) *primitive.SendResult {
	return sendTextWithin(patient, sender, queue, tag, text)
}

func sendTextWithin(timeout context.Context, sender rocketmq.Producer, queue *primitive.MessageQueue, tag, text string) *primitive.SendResult {
	one := primitive.NewMessage(queue.Topic, []byte(text))
	if tag != "" {
		one.WithTag(tag)
	}
	one.Queue = queue
	answer, err := sender.SendSync(timeout, one)
	must(err)
	equal(primitive.SendOK, answer.Status, "send status")
	return answer
}

func tags(s *stage) string {
	queues := s.createTopic(4)
	sender := s.producer(toNamedQueue())
	expressions := []string{"TagA || TagB", "TagD", "*"} // this client hashes tags outside ASCII unlike Java and any broker
	boxes := make([]inbox, 3)
	expected := make([][]string, 3)
	for i, expression := range expressions {
		s.push(fmt.Sprintf("%s%d", s.group, i), "1", expression, boxes[i].listen)
	}
	all := []string{"TagA", "TagB", "TagC", "TagD"}
	for i := 0; i < 400; i++ {
		tag := all[i%4]
		text := fmt.Sprintf("%s-%d", tag, i)
		sendText(sender, queues[i/4%4], tag, text)
		expected[2] = append(expected[2], text)
		if tag == "TagD" {
			expected[1] = append(expected[1], text)
		} else if tag != "TagC" {
			expected[0] = append(expected[0], text)
		}
	}
	for i := range boxes {
		boxes[i].await(len(expected[i]), "messages by "+expressions[i])
		sort.Strings(expected[i])
		equal(expected[i], boxes[i].bodies(), "messages by "+expressions[i])
		for _, one := range boxes[i].snapshot() {
			equal(true, strings.HasPrefix(string(one.Body), one.GetTags()+"-"), "tag of "+string(one.Body))
		}
	}
	return "200, 100 and 400 of 400 by three subscriptions"
}

// longPolling sends each message when the last one has come, which wakes a waiting pull. The note has the mean round trip.
func longPolling(s *stage) string {
	queues := s.createTopic(4)
	sender := s.producer(toNamedQueue())
	received := make(chan string, 100)
	s.push(s.group, "1", "TagA", func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, one := range messages {
			received <- string(one.Body)
		}
		return consumer.ConsumeSuccess, nil
	})
	next := func(what string) string {
		select {
		case text := <-received:
			return text
		case <-time.After(patience):
			fail("%s did not come within %v", what, patience)
			return ""
		}
	}
	for _, queue := range queues {
		sendText(sender, queue, "TagA", "first")
		next("the first message of a queue")
	}
	start := time.Now()
	for i := 0; i < 200; i++ {
		sendText(sender, queues[(i+1)%4], "TagB", "not for us")
		sendText(sender, queues[i%4], "TagA", fmt.Sprint("ping ", i))
		equal(fmt.Sprint("ping ", i), next(fmt.Sprint("ping ", i)), "message")
	}
	return fmt.Sprintf("200 round trips, %.1f ms each", time.Since(start).Seconds()*1000/200)
}

func broadcast(s *stage) string {
	queues := s.createTopic(4)
	sender := s.producer(toNamedQueue())
	boxes := make([]inbox, 2)
	for i := range boxes {
		s.push(s.group, fmt.Sprint("b", i), "*", boxes[i].listen, consumer.WithConsumerModel(consumer.BroadCasting))
	}
	var sent []string
	for i := 0; i < 200; i++ {
		text := fmt.Sprint("all ", i)
		sent = append(sent, text)
		sendText(sender, queues[i%4], "", text)
	}
	sort.Strings(sent)
	for i := range boxes {
		boxes[i].await(200, "messages of one instance")
		equal(sent, boxes[i].bodies(), "messages of one instance, each once")
	}
	return "2 instances, 200 messages each"
}

// pull reads from chosen offsets, then by assignment with offsets that are stored and resumed.
func pull(s *stage) string {
	queues := s.createTopic(4)
	sender := s.producer(toNamedQueue())
	for i := 0; i < 200; i++ {
		sendText(sender, queues[i%4], "", fmt.Sprint(i))
	}
	reader := s.puller(s.topic, s.group+"_R", "1")
	for _, queue := range queues {
		equal(50, len(readQueue(reader, queue, 50)), fmt.Sprintf("messages in %v", queue))
		result, err := reader.PullFrom(patient, queue, 30, 5)
		must(err)
		equal(5, len(result.GetMessageExts()), "messages of a pull of 5")
		equal(int64(35), result.NextBeginOffset, "next begin offset")
		equal(fmt.Sprint(30*4+queue.QueueId), string(result.GetMessageExts()[0].Body), "message at offset 30")
		beyond, err := reader.PullFrom(patient, queue, 1000, 5)
		must(err)
		equal(primitive.PullOffsetIllegal, beyond.Status, "status of a pull beyond the end")
		equal(int64(50), beyond.NextBeginOffset, "offset after a pull beyond the end")
	}
	first := poll(s, "1", queues, 200, 50)
	for i := 200; i < 240; i++ {
		sendText(sender, queues[i%4], "", fmt.Sprint(i))
	}
	second := poll(s, "2", queues, 40, 60)
	for i := 0; i < 240; i++ {
		equal(i < 200, first[fmt.Sprint(i)], fmt.Sprintf("message %d came before the offsets were stored", i))
		equal(i >= 200, second[fmt.Sprint(i)], fmt.Sprintf("message %d came after the offsets were stored", i))
	}
	return "240 messages, chosen offsets, resume from stored offsets"
}

// poll has a new member of the group take that many messages, after which the broker must hold the end offset of each queue.
func poll(s *stage, instance string, queues []*primitive.MessageQueue, count int, end int64) map[string]bool {
	member := s.puller(s.topic, s.group, instance)
	seen := map[string]bool{}
	for limit := time.Now().Add(patience); len(seen) < count && time.Now().Before(limit); {
		request, err := member.Poll(background, time.Second)
		if consumer.IsNoNewMsgError(err) {
			continue
		}
		must(err)
		for _, one := range request.GetMsgList() {
			seen[string(one.Body)] = true
		}
		member.ACK(background, request, consumer.ConsumeSuccess)
	}
	equal(count, len(seen), "messages polled")
	must(member.PersistOffset(background, s.topic))
	s.awaitStored(s.group, queues, end)
	must(member.Shutdown())
	return seen
}
