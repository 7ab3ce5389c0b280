package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// requests has one application ask another and wait for the answers.
func requests(s *stage) string {
	const count, atOnce = 100, 8
	s.createTopic(4)
	requester, replier := s.producer(), s.producer()
	var mutex sync.Mutex
	var refused []string
	var kept *primitive.MessageExt
	s.push(s.group, "1", "*", func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, message := range messages {
			if string(message.Body) == "nobody answers" {
				mutex.Lock()
				kept = message
				mutex.Unlock()
				continue
			}
			answer, err := consumer.CreateReplyMessage(message, []byte("x"))
			if err == nil {
				// The client leaves the body out.
				equal(0, len(answer.Body), "bytes of a reply as this client makes it")
				if string(message.Body) != "first" {
					answer.Body = []byte("re: " + string(message.Body))
				}
				_, err = replier.SendSync(patient, answer)
			}
			if err != nil {
				mutex.Lock()
				refused = append(refused, err.Error())
				mutex.Unlock()
			}
		}
		return consumer.ConsumeSuccess, nil
	})
	ask := func(text string, timeout time.Duration) (string, error) {
		answer, err := requester.Request(patient, timeout, primitive.NewMessage(s.topic, []byte(text)))
		if err != nil {
			return "", err
		}
		return string(answer.Body), nil
	}
	// The client sends heartbeats every 30 s, and at once only when a request's topic is new. Brokers refuse replies to a requester that they
	// do not know yet.
	if _, err := requester.Request(patient, 200*time.Millisecond, primitive.NewMessage(s.topic+"_new", []byte("first"))); err == nil {
		fail("a request to a topic without a consumer is answered")
	}
	await("the first answer", func() bool {
		found, err := ask("first", 10*time.Second)
		equal("", found, "the first answer")
		return err == nil
	}, func() any { return refused })
	mutex.Lock()
	refused = nil
	mutex.Unlock()
	var running sync.WaitGroup
	var wrong []string
	slots := make(chan struct{}, atOnce)
	for number := 0; number < count; number++ {
		slots <- struct{}{}
		running.Add(1)
		go func() {
			defer func() { <-slots; running.Done() }()
			text := fmt.Sprintf("question %d", number)
			answer, err := ask(text, patience)
			if err != nil || answer != "re: "+text {
				mutex.Lock()
				wrong = append(wrong, fmt.Sprintf("%s: %q, %v", text, answer, err))
				mutex.Unlock()
			}
		}()
	}
	running.Wait()
	equal(0, len(wrong), fmt.Sprintf("wrong answers %v", wrong))
	equal(0, len(refused), fmt.Sprintf("refused replies %v", refused))
	current := func() *primitive.MessageExt {
		mutex.Lock()
		defer mutex.Unlock()
		return kept
	}
	await("the request without a reply", func() bool {
		if _, err := ask("nobody answers", 2*time.Second); err == nil {
			fail("a request without a reply did not time out")
		}
		return current() != nil
	}, func() any { return current() })
	must(requester.Shutdown())
	late, err := consumer.CreateReplyMessage(current(), []byte("too late"))
	must(err)
	await("the refusal of a reply to a requester that is gone", func() bool {
		_, err = replier.SendSync(patient, late)
		return err != nil && strings.Contains(err.Error(), "push reply message fail, channel of <")
	}, func() any { return err })
	return fmt.Sprintf("%d answers, %d at once; one without a body; timeout; requester gone", count, atOnce)
}
