// Scenarios on the official Go client of RocketMQ 5.x. Arguments: gRPC endpoint, name server, run id, scenario names; or list.
package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	remoting "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
	rmq "github.com/apache/rocketmq-clients/golang/v5"
)

var scenarios map[string]func(*Stage)

func init() {
	rlog.SetLogLevel("error")
	scenarios = map[string]func(*Stage){
		"simple": simple, "tls": simple, "push": push, "slow": slow, "fifo": fifo, "delay": delay, "transactions": transactions,
		"tags": tags, "sql": sql, "dead-letters": deadLetters, "large-bodies": largeBodies, "handover": handover,
	}
}

func simple(s *Stage) {
	producer, consumer := s.producer(), s.consumer()
	sent, mutex := map[string]string{}, sync.Mutex{}
	var pending sync.WaitGroup
	for index := range 40 {
		message := s.message(fmt.Sprintf("body %d", index))
		message.SetTag("A")
		message.SetKeys(fmt.Sprintf("k%d", index))
		message.AddProperty("color", "red")
		if index%2 == 0 {
			receipt := send(producer, message)
			mutex.Lock()
			sent[receipt.MessageID] = string(message.Body)
			mutex.Unlock()
			continue
		}
		pending.Add(1)
		producer.SendAsync(context.Background(), message, func(_ context.Context, receipts []*rmq.SendReceipt, err error) {
			defer pending.Done()
			if err == nil {
				mutex.Lock()
				defer mutex.Unlock()
				sent[receipts[0].MessageID] = string(message.Body)
			}
		})
	}
	pending.Wait()
	found := map[string]string{}
	for _, message := range receive(consumer, 40) {
		body := string(message.GetBody())
		found[message.GetMessageId()] = body
		equal("A", *message.GetTag(), "tag")
		equal("red", message.GetProperties()["color"], "property")
		equal([]string{"k" + strings.Fields(body)[1]}, message.GetKeys(), "keys")
		equal(1, message.GetDeliveryAttempt(), "attempt")
	}
	equal(40, len(found), "messages")
	equal(sent, found, "messages by id")
	nothing(consumer, "after all were acknowledged")
}

func push(s *Stage) {
	var found List
	s.push(func(message *rmq.MessageView) bool {
		body := string(message.GetBody())
		found.add(fmt.Sprint(body, " ", message.GetDeliveryAttempt()))
		return body != "7" || message.GetDeliveryAttempt() > 1
	})
	producer, expected := s.producer(), List{}
	for index := range 200 {
		send(producer, s.message(strconv.Itoa(index)))
		expected.add(fmt.Sprint(index, " 1"))
	}
	expected.add("7 2")
	await("delivery of all", func() bool { return len(found.all()) >= 201 })
	equal(expected.sorted(), found.sorted(), "deliveries")
}

// A listener that takes longer than messages stay invisible (60 s): the server renews them, so they come once.
func slow(s *Stage) {
	var found List
	var done atomic.Int32
	s.push(func(message *rmq.MessageView) bool {
		found.add(fmt.Sprint(string(message.GetBody()), " ", message.GetDeliveryAttempt()))
		time.Sleep(75 * time.Second)
		done.Add(1)
		return true
	})
	send(s.producer(), s.message("slow"))
	await("consumption", func() bool { return done.Load() > 0 })
	nothing(s.consumer(), "after the message was consumed")
	equal([]string{"slow 1"}, found.all(), "deliveries")
}

// The message that fails is the last of its group when it fails: this client goes on with the rest of a batch while a message waits for
// its next attempt (`fifoConsumeService.consumeIteratively` does not wait for `eraseFifoMessage`). What is sent after that waits at the
// broker until the message is acknowledged.
func fifo(s *Stage) {
	lists := map[string]*List{"g0": {}, "g1": {}, "g2": {}}
	var failed atomic.Int32
	s.push(func(message *rmq.MessageView) bool {
		parts := strings.Fields(string(message.GetBody()))
		if parts[1] == "3" && failed.Add(1) == 1 {
			return false
		}
		lists[parts[0]].add(parts[1])
		return true
	})
	producer := s.producer()
	for index := range 60 {
		if index == 12 {
			await("the delivery that fails", func() bool { return failed.Load() > 0 })
		}
		part := fmt.Sprintf("g%d", index%3)
		message := s.message(fmt.Sprint(part, " ", index/3))
		message.SetMessageGroup(part)
		send(producer, message)
	}
	for part, list := range lists {
		await("delivery of all", func() bool { return len(list.all()) >= 20 })
		for index, number := range list.all() {
			equal(index, number, "order of "+part)
		}
	}
}

// Producers before 5.1.4 cannot take messages back.
type recaller interface {
	Recall(ctx context.Context, topic, handle string) (string, error)
}

// The recalled message would come before the other one.
func delay(s *Stage) {
	producer, consumer := s.producer(), s.consumer()
	due := time.Now().Add(30 * time.Second).Truncate(time.Millisecond)
	late, recalled := s.message("late"), s.message("recalled")
	late.SetDelayTimestamp(due.Add(time.Millisecond))
	recalled.SetDelayTimestamp(due)
	if recaller, can := producer.(recaller); can {
		receipt := send(producer, recalled)
		// The field is missing where the method is.
		handle := reflect.ValueOf(*receipt).FieldByName("RecallHandle").String()
		id, err := recaller.Recall(context.Background(), s.topic, handle)
		must(err)
		equal(receipt.MessageID, id, "id of the recalled message")
	}
	send(producer, late)
	equal([]string{"late"}, bodies(receive(consumer, 1)), "bodies")
	check(time.Now().After(due), "the message came before its time")
	nothing(consumer, "of the recalled message")
}

func transactions(s *Stage) {
	consumer := s.consumer()
	producer := s.producer(rmq.WithTransactionChecker(&rmq.TransactionChecker{
		Check: func(message *rmq.MessageView) rmq.TransactionResolution {
			switch string(message.GetBody()) {
			case "asked and committed":
				return rmq.COMMIT
			case "asked and rolled back":
				return rmq.ROLLBACK
			}
			return rmq.UNKNOWN // a second decision would deliver a message twice
		}}))
	for _, body := range []string{"committed", "rolled back", "asked and committed", "asked and rolled back"} {
		transaction := producer.BeginTransaction()
		_, err := producer.SendWithTransaction(context.Background(), s.message(body), transaction)
		must(err)
		switch body {
		case "committed":
			must(transaction.Commit())
		case "rolled back":
			must(transaction.RollBack())
		}
	}
	equal([]string{"asked and committed", "committed"}, bodies(receive(consumer, 2)), "bodies")
	nothing(consumer, "of what was rolled back")
}

func filtered(s *Stage, filter *rmq.FilterExpression) {
	producer, consumer := s.producer(), s.consumerOf(s.topic, filter)
	for _, tag := range []string{"A", "B", "C", "A"} {
		message := s.message(tag)
		message.SetTag(tag)
		message.AddProperty("size", map[bool]string{true: "1", false: "10"}[tag == "C"])
		send(producer, message)
	}
	equal([]string{"A", "A", "B"}, bodies(receive(consumer, 3)), "bodies")
	nothing(consumer, "of what does not match")
}

func tags(s *Stage) {
	filtered(s, rmq.NewFilterExpression("A||B"))
}

func sql(s *Stage) {
	filtered(s, rmq.NewFilterExpressionWithType("size > 5 AND TAGS IS NOT NULL", rmq.SQL92))
}

// The runner allows the group two deliveries.
func deadLetters(s *Stage) {
	var attempts List
	s.push(func(message *rmq.MessageView) bool {
		attempts.add(fmt.Sprint(message.GetDeliveryAttempt()))
		return false
	})
	message := s.message("bad")
	message.AddProperty("color", "red")
	id := send(s.producer(), message).MessageID
	var consumer rmq.SimpleConsumer
	await("a dead letter topic", func() bool {
		found, err := s.tryConsumer("%DLQ%"+s.group, rmq.SUB_ALL)
		consumer = found
		return err == nil
	})
	found := receive(consumer, 1)
	equal([]string{"bad"}, bodies(found), "dead letters")
	equal("red", found[0].GetProperties()["color"], "property")
	equal(id, found[0].GetMessageId(), "id")
	equal([]string{"1", "2"}, attempts.all(), "attempts")
}

func largeBodies(s *Stage) {
	producer, consumer := s.producer(), s.consumer()
	body := make([]byte, 4<<20)
	rand.New(rand.NewSource(7)).Read(body)
	send(producer, &rmq.Message{Topic: s.topic, Body: body})
	found := receive(consumer, 1)
	equal(1, len(found), "messages")
	check(bytes.Equal(body, found[0].GetBody()), "the body of 4 MiB came back changed")
	_, err := producer.Send(context.Background(), &rmq.Message{Topic: s.topic, Body: make([]byte, 4<<20+1)})
	check(err != nil, "a body over the limit was sent")
	send(producer, s.message("after it"))
	equal([]string{"after it"}, bodies(receive(consumer, 1)), "the next message")
}

// A group moves from remoting to gRPC: what the old client consumed does not come again, what it left does.
func handover(s *Stage) {
	var found, expected List
	old, err := remoting.NewPushConsumer(consumer.WithGroupName(s.group), consumer.WithInstance("c"+s.group),
		consumer.WithNameServer([]string{s.namesrv}), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	must(err)
	must(old.Subscribe(s.topic, consumer.MessageSelector{}, func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, message := range messages {
			found.add(string(message.Body))
		}
		return consumer.ConsumeSuccess, nil
	}))
	must(old.Start())
	older, err := remoting.NewProducer(producer.WithNameServer([]string{s.namesrv}), producer.WithInstanceName("p"+s.group),
		producer.WithSendMsgTimeout(requestTimeout))
	must(err)
	must(older.Start())
	s.clients = append(s.clients, older.Shutdown)
	newer := s.producer()
	for index := range 20 {
		_, err := older.SendSync(context.Background(), primitive.NewMessage(s.topic, []byte(fmt.Sprint("old ", index))))
		must(err)
		expected.add(fmt.Sprint("old ", index))
		expected.add(fmt.Sprint("new ", index))
	}
	await("delivery to the old client", func() bool { return len(found.all()) >= 20 })
	// A message whose listener has not returned when the client shuts down comes again.
	await("consumption", func() bool { return old.GetOffsetDiffMap()[s.topic] == 0 })
	must(old.Shutdown())
	for index := range 20 {
		send(newer, s.message(fmt.Sprint("new ", index)))
	}
	consumer := s.consumer()
	for _, body := range bodies(receive(consumer, 20)) {
		found.add(body)
	}
	equal(expected.sorted(), found.sorted(), "messages of both")
	nothing(consumer, "after all were acknowledged")
}
