package main

import (
	"context"
	"fmt"
	"sort"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/admin"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

var background = context.Background()

// patient is a context for calls that wait for their answer however long it takes. The client ends each call after 3 to 30 s, unless the
// deadline of its caller is earlier: then it leaves the timeout to the caller.
var patient context.Context = earlyDeadline{background}

type earlyDeadline struct{ context.Context }

func (earlyDeadline) Deadline() (time.Time, bool) { return time.Now().Add(2 * time.Second), true }

// stage has the topic, the group and the clients of one scenario. The clients are shut down at its end.
type stage struct {
	namesrv string
	broker  string
	topic   string
	group   string
	closers []func()
}

func newStage(namesrv, broker, scenario, run string) *stage {
	return &stage{namesrv: namesrv, broker: broker, topic: "T_" + scenario + "_" + run, group: "G_" + scenario + "_" + run}
}

func (s *stage) close() {
	for i := len(s.closers) - 1; i >= 0; i-- {
		s.closers[i]()
	}
}

func (s *stage) resolver() primitive.NsResolver {
	return primitive.NewPassthroughResolver([]string{s.namesrv})
}

// producer starts a producer that sends to the queue a message names, if it names one.
func (s *stage) producer(options ...producer.Option) rocketmq.Producer {
	group := fmt.Sprintf("%s_P%d", s.group, len(s.closers))
	options = append([]producer.Option{producer.WithNsResolver(s.resolver()), producer.WithGroupName(group),
		producer.WithInstanceName(group), producer.WithRetry(20)}, options...)
	started, err := rocketmq.NewProducer(options...)
	must(err)
	must(started.Start())
	s.closers = append(s.closers, func() { _ = started.Shutdown() })
	return started
}

func toNamedQueue() producer.Option {
	return producer.WithQueueSelector(producer.NewManualQueueSelector())
}

// createTopic creates this scenario's topic and returns its queues in order once the name server routes them.
func (s *stage) createTopic(queues int) []*primitive.MessageQueue {
	tool, err := admin.NewAdmin(admin.WithResolver(s.resolver()))
	must(err)
	must(tool.CreateTopic(patient, admin.WithTopicCreate(s.topic), admin.WithBrokerAddrCreate(s.broker),
		admin.WithReadQueueNums(queues), admin.WithWriteQueueNums(queues)))
	return s.awaitRoute(queues)
}

func (s *stage) awaitRoute(queues int) []*primitive.MessageQueue {
	tool, err := admin.NewAdmin(admin.WithResolver(s.resolver()))
	must(err)
	var found []*primitive.MessageQueue
	await(fmt.Sprintf("a route of %s with %d queues", s.topic, queues), func() bool {
		found, err = tool.FetchPublishMessageQueues(background, s.topic)
		return err == nil && len(found) == queues
	}, func() any { return len(found) })
	sort.Slice(found, func(i, j int) bool { return found[i].QueueId < found[j].QueueId })
	return found
}

type listener func(context.Context, ...*primitive.MessageExt) (consumer.ConsumeResult, error)

// push starts a push consumer of this scenario's topic.
func (s *stage) push(group, instance, expression string, listen listener, options ...consumer.Option) rocketmq.PushConsumer {
	options = append([]consumer.Option{consumer.WithNsResolver(s.resolver()), consumer.WithGroupName(group),
		consumer.WithInstance(group + "-" + instance), consumer.WithConsumerModel(consumer.Clustering),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset)}, options...)
	started, err := rocketmq.NewPushConsumer(options...)
	must(err)
	must(started.Subscribe(s.topic, consumer.MessageSelector{Type: consumer.TAG, Expression: expression}, listen))
	must(started.Start())
	s.closers = append(s.closers, func() { _ = started.Shutdown() })
	return started
}

// puller starts a pull consumer of a topic.
func (s *stage) puller(topic, group, instance string) rocketmq.PullConsumer {
	started, err := rocketmq.NewPullConsumer(consumer.WithNsResolver(s.resolver()), consumer.WithGroupName(group),
		consumer.WithInstance(group+"-"+instance))
	must(err)
	must(started.Subscribe(topic, consumer.MessageSelector{Type: consumer.TAG, Expression: "*"}))
	must(started.Start())
	s.closers = append(s.closers, func() { _ = started.Shutdown() })
	return started
}

// readQueue reads a queue from its first message until so many came and the end is reached.
func readQueue(reader rocketmq.PullConsumer, queue *primitive.MessageQueue, count int) []*primitive.MessageExt {
	var messages []*primitive.MessageExt
	offset, end, limit := int64(0), int64(1), time.Now().Add(patience)
	for offset < end || len(messages) < count {
		result, err := reader.PullFrom(patient, queue, offset, 32)
		must(err)
		if result.Status == primitive.PullNoNewMsg && time.Now().Before(limit) {
			continue
		}
		equal(primitive.PullFound, result.Status, fmt.Sprintf("status of a pull at %d of %v", offset, queue))
		for _, message := range result.GetMessageExts() {
			equal(offset, message.QueueOffset, fmt.Sprintf("queue offset in %v", queue))
			equal(queue.QueueId, message.Queue.QueueId, fmt.Sprintf("queue id in %v", queue))
			equal(queue.Topic, message.Topic, fmt.Sprintf("topic in %v", queue))
			messages = append(messages, message)
			offset++
		}
		equal(offset, result.NextBeginOffset, fmt.Sprintf("next begin offset in %v", queue))
		end = result.MaxOffset
	}
	return messages
}
