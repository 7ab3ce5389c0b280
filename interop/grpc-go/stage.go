package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"sort"
	"strings"
	"sync"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
)

const (
	invisible, patience = 300 * time.Second, 240 * time.Second
	// Added to the time of a poll, this is the deadline of a receive. The server waits until half of it is left, and 20 s at most.
	requestTimeout = 60 * time.Second
)

// Stage has a topic and a group for one scenario, which the runner made, and clients that are stopped at its end.
type Stage struct {
	endpoint, namesrv, topic, group string
	clients                         []func() error
}

func newStage(endpoint, namesrv, run, scenario string) *Stage {
	name := "go_" + strings.ReplaceAll(scenario, "-", "_") + "_" + run
	return &Stage{endpoint: endpoint, namesrv: namesrv, topic: "T_" + name, group: "G_" + name}
}

func (s *Stage) configuration(group string) *rmq.Config {
	return &rmq.Config{Endpoint: s.endpoint, ConsumerGroup: group, Credentials: &credentials.SessionCredentials{}}
}

func (s *Stage) producer(options ...rmq.ProducerOption) rmq.Producer {
	producer, err := rmq.NewProducer(s.configuration(""), append(options, rmq.WithTopics(s.topic))...)
	must(err)
	producer.SetRequestTimeout(requestTimeout)
	must(producer.Start())
	s.clients = append(s.clients, producer.GracefulStop)
	return producer
}

func (s *Stage) consumer() rmq.SimpleConsumer {
	return s.consumerOf(s.topic, rmq.SUB_ALL)
}

func (s *Stage) consumerOf(topic string, filter *rmq.FilterExpression) rmq.SimpleConsumer {
	consumer, err := s.tryConsumer(topic, filter)
	must(err)
	return consumer
}

func (s *Stage) tryConsumer(topic string, filter *rmq.FilterExpression) (rmq.SimpleConsumer, error) {
	consumer, err := rmq.NewSimpleConsumer(s.configuration(s.group), rmq.WithSimpleAwaitDuration(time.Second),
		rmq.WithSimpleSubscriptionExpressions(map[string]*rmq.FilterExpression{topic: filter}))
	if err == nil {
		consumer.SetRequestTimeout(requestTimeout)
		err = consumer.Start()
	}
	if err == nil {
		s.clients = append(s.clients, consumer.GracefulStop)
	}
	return consumer, err
}

func (s *Stage) push(listener func(*rmq.MessageView) bool) {
	consume := func(message *rmq.MessageView) rmq.ConsumerResult {
		if listener(message) {
			return rmq.SUCCESS
		}
		return rmq.FAILURE
	}
	consumer, err := rmq.NewPushConsumer(s.configuration(s.group), rmq.WithPushAwaitDuration(5*time.Second),
		rmq.WithPushSubscriptionExpressions(map[string]*rmq.FilterExpression{s.topic: rmq.SUB_ALL}),
		rmq.WithPushMessageListener(&rmq.FuncMessageListener{Consume: consume}),
		rmq.WithPushConsumptionThreadCount(20), rmq.WithPushMaxCacheMessageCount(1024))
	must(err)
	consumer.SetRequestTimeout(requestTimeout)
	must(consumer.Start())
	s.clients = append(s.clients, consumer.GracefulStop)
}

func (s *Stage) message(body string) *rmq.Message {
	return &rmq.Message{Topic: s.topic, Body: []byte(body)}
}

func (s *Stage) close() {
	for _, stop := range s.clients {
		if err := stop(); err != nil {
			log.Print("stop: ", err)
		}
	}
}

func send(producer rmq.Producer, message *rmq.Message) *rmq.SendReceipt {
	receipts, err := producer.Send(context.Background(), message)
	must(err)
	equal(1, len(receipts), "receipts")
	return receipts[0]
}

// Receives and acknowledges until count messages came.
func receive(consumer rmq.SimpleConsumer, count int) []*rmq.MessageView {
	var found []*rmq.MessageView
	for end := time.Now().Add(patience); len(found) < count && time.Now().Before(end); {
		// That nothing came is an error of this client.
		messages, err := consumer.Receive(context.Background(), 32, invisible)
		if err != nil && !strings.Contains(err.Error(), "MESSAGE_NOT_FOUND") {
			log.Print("receive: ", err)
		}
		for _, message := range messages {
			must(consumer.Ack(context.Background(), message))
			found = append(found, message)
		}
	}
	return found
}

func nothing(consumer rmq.SimpleConsumer, when string) {
	messages, err := consumer.Receive(context.Background(), 32, invisible)
	equal("[]", fmt.Sprint(bodies(messages)), when)
	check(err != nil && strings.Contains(err.Error(), "MESSAGE_NOT_FOUND"), fmt.Sprint("the answer ", when, ": ", err))
}

func bodies(messages []*rmq.MessageView) []string {
	found := []string{}
	for _, message := range messages {
		found = append(found, string(message.GetBody()))
	}
	sort.Strings(found)
	return found
}

// List has the deliveries to listeners, which run side by side.
type List struct {
	mutex sync.Mutex
	items []string
}

func (l *List) add(item string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.items = append(l.items, item)
}

func (l *List) all() []string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return append([]string{}, l.items...)
}

func (l *List) sorted() []string {
	items := l.all()
	sort.Strings(items)
	return items
}

func await(what string, holds func() bool) {
	for end := time.Now().Add(patience); !holds(); time.Sleep(50 * time.Millisecond) {
		check(time.Now().Before(end), fmt.Sprint(what, " did not happen within ", patience))
	}
}

func check(holds bool, text string) {
	if !holds {
		panic(text)
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func equal(expected, found any, what string) {
	check(fmt.Sprint(expected) == fmt.Sprint(found), fmt.Sprintf("%s: expected %.300s, found %.300s", what, fmt.Sprint(expected), fmt.Sprint(found)))
}

func perform(arguments []string, name string) {
	stage := newStage(arguments[0], arguments[1], arguments[2], name)
	defer stage.close()
	defer func() {
		// Scenarios run at the same time: a line and its end are written at once.
		if failure := recover(); failure != nil {
			log.Printf("%s: %v", name, failure)
			fmt.Printf("@fail %s %.300s\n", name, strings.ReplaceAll(fmt.Sprint(failure), "\n", " "))
		} else {
			fmt.Printf("@ok %s\n", name)
		}
	}()
	scenarios[name](stage)
}

func main() {
	if os.Args[1] == "list" {
		for name := range scenarios {
			fmt.Println(name)
		}
		return
	}
	// Whether connections are encrypted is one setting of the whole process, so that tls is run by a process of its own.
	names := os.Args[4:]
	rmq.EnableSsl = len(names) == 1 && names[0] == "tls"
	var all sync.WaitGroup
	for _, name := range names {
		all.Go(func() { perform(os.Args[1:4], name) })
	}
	all.Wait()
}
