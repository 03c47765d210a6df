// The official Go client, driven by lines of JSON: see interop/grpc/clients.py for the words. TLS, as it comes.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
)

type asked struct {
	Op, Name, Endpoint, Group, Topic, Expression, Handle, Id, Ending string
	Sql                                                              bool
	Topics                                                           []string
	Count                                                            int
	WaitMs, InvisibleMs, TimeoutMs                                   int64
	Failures                                                         map[string]int
	Message                                                          message
}

type message struct {
	Topic, Body, Tag, Group string
	Keys                    []string
	Properties              map[string]string
	DeliverAtMs             int64
	Priority                *int32
}

type view struct {
	Id         string            `json:"id"`
	Body       string            `json:"body"`
	Tag        string            `json:"tag"`
	Keys       []string          `json:"keys"`
	Properties map[string]string `json:"properties"`
	Attempt    int32             `json:"attempt"`
	Group      string            `json:"group"`
}

type seen struct {
	sync.Mutex
	views []view
	times map[string]int
}

var (
	background = context.Background()
	producers  = map[string]rmq.Producer{}
	simples    = map[string]rmq.SimpleConsumer{}
	pushes     = map[string]rmq.PushConsumer{}
	received   = map[string]*rmq.MessageView{}
	heard      = map[string]*seen{}
)

func patient(client any) {
	client.(interface{ SetRequestTimeout(time.Duration) }).SetRequestTimeout(20 * time.Second)
}

func config(from asked) *rmq.Config {
	return &rmq.Config{Endpoint: from.Endpoint, ConsumerGroup: from.Group, Credentials: &credentials.SessionCredentials{}}
}

func text(found *string) string {
	if found == nil {
		return ""
	}
	return *found
}

func shown(from *rmq.MessageView) view {
	return view{from.GetMessageId(), string(from.GetBody()), text(from.GetTag()), append([]string{}, from.GetKeys()...),
		from.GetProperties(), from.GetDeliveryAttempt(), text(from.GetMessageGroup())}
}

func outgoing(from message) *rmq.Message {
	made := &rmq.Message{Topic: from.Topic, Body: []byte(from.Body)}
	if from.Tag != "" {
		made.SetTag(from.Tag)
	}
	if len(from.Keys) > 0 {
		made.SetKeys(from.Keys...)
	}
	for key, value := range from.Properties {
		made.AddProperty(key, value)
	}
	if from.Group != "" {
		made.SetMessageGroup(from.Group)
	}
	if from.DeliverAtMs != 0 {
		made.SetDelayTimestamp(time.UnixMilli(from.DeliverAtMs))
	}
	if from.Priority != nil {
		made.SetPriority(*from.Priority)
	}
	return made
}

func subscription(from asked) map[string]*rmq.FilterExpression {
	expression := rmq.NewFilterExpression(from.Expression)
	if from.Sql {
		expression = rmq.NewFilterExpressionWithType(from.Expression, rmq.SQL92)
	}
	return map[string]*rmq.FilterExpression{from.Topic: expression}
}

func startProducer(from asked) error {
	checker := &rmq.TransactionChecker{Check: func(found *rmq.MessageView) rmq.TransactionResolution {
		body := string(found.GetBody())
		if strings.HasSuffix(body, "commit") {
			return rmq.COMMIT
		} else if strings.HasSuffix(body, "rollback") {
			return rmq.ROLLBACK
		}
		return rmq.UNKNOWN
	}}
	producer, err := rmq.NewProducer(config(from), rmq.WithTransactionChecker(checker), rmq.WithTopics(from.Topics...))
	if err == nil {
		producers[from.Name] = producer
		patient(producer)
		err = producer.Start()
	}
	return err
}

func receipt(sent []*rmq.SendReceipt, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return map[string]string{"id": sent[0].MessageID, "handle": sent[0].RecallHandle}, nil
}

func transaction(from asked) (any, error) {
	producer := producers[from.Name]
	begun := producer.BeginTransaction()
	sent, err := producer.SendWithTransaction(background, outgoing(from.Message), begun)
	if err == nil && from.Ending == "commit" {
		err = begun.Commit()
	} else if err == nil && from.Ending == "rollback" {
		err = begun.RollBack()
	}
	return receipt(sent, err)
}

func newSimple(from asked) (rmq.SimpleConsumer, error) {
	wait := time.Duration(from.WaitMs) * time.Millisecond
	consumer, err := rmq.NewSimpleConsumer(config(from), rmq.WithSimpleAwaitDuration(wait),
		rmq.WithSimpleSubscriptionExpressions(subscription(from)))
	if err == nil {
		patient(consumer)
		err = consumer.Start()
	}
	return consumer, err
}

func receiveSome(consumer rmq.SimpleConsumer, count int, invisibleMs int64) ([]*rmq.MessageView, error) {
	found, err := consumer.Receive(background, int32(count), time.Duration(invisibleMs)*time.Millisecond)
	if status, ok := rmq.AsErrRpcStatus(err); ok && status.Code == 40401 {
		return nil, nil // nothing came
	}
	return found, err
}

func receive(from asked) (any, error) {
	found, err := receiveSome(simples[from.Name], from.Count, from.InvisibleMs)
	views := []view{}
	for _, each := range found {
		received[each.GetMessageId()] = each
		views = append(views, shown(each))
	}
	return views, err
}

func startPush(from asked) error {
	found := &seen{times: map[string]int{}}
	heard[from.Name] = found
	listener := &rmq.FuncMessageListener{Consume: func(each *rmq.MessageView) rmq.ConsumerResult {
		found.Lock()
		defer found.Unlock()
		made := shown(each)
		found.views = append(found.views, made)
		found.times[made.Body]++
		if found.times[made.Body] <= from.Failures[made.Body] {
			return rmq.FAILURE
		}
		return rmq.SUCCESS
	}}
	consumer, err := rmq.NewPushConsumer(config(from), rmq.WithPushSubscriptionExpressions(subscription(from)),
		rmq.WithPushMessageListener(listener), rmq.WithPushAwaitDuration(5*time.Second),
		rmq.WithPushConsumptionThreadCount(20), rmq.WithPushMaxCacheMessageCount(1024))
	if err == nil {
		pushes[from.Name] = consumer
		patient(consumer)
		err = consumer.Start()
	}
	return err
}

func wait(from asked) []view {
	found := heard[from.Name]
	for end := time.Now().Add(time.Duration(from.TimeoutMs) * time.Millisecond); ; time.Sleep(50 * time.Millisecond) {
		found.Lock()
		views := append([]view{}, found.views...)
		found.Unlock()
		if len(views) >= from.Count || time.Now().After(end) {
			return views
		}
	}
}

// Many simple consumers of one group, in plain text: 1 000 handshakes would be the test.
var members []rmq.SimpleConsumer

// Start so many more. Returns how many there are.
func crowdStart(from asked) (any, error) {
	rmq.EnableSsl = false
	lock, group := sync.Mutex{}, sync.WaitGroup{}
	for number := 0; number < from.Count; number++ {
		group.Add(1)
		go func() {
			defer group.Done()
			if consumer, err := newSimple(from); err == nil {
				lock.Lock()
				members = append(members, consumer)
				lock.Unlock()
			}
		}()
		if number%20 == 19 {
			group.Wait()
		}
	}
	group.Wait()
	return len(members), nil
}

// All receive and acknowledge for some time. Returns how often each body was acknowledged, and what went wrong.
func crowdRun(from asked) (any, error) {
	counts, failures := map[string]int{}, map[string]int{}
	lock, group := sync.Mutex{}, sync.WaitGroup{}
	end := time.Now().Add(time.Duration(from.TimeoutMs) * time.Millisecond)
	for _, consumer := range members {
		group.Add(1)
		go func() {
			defer group.Done()
			for time.Now().Before(end) {
				found, err := receiveSome(consumer, 4, from.InvisibleMs)
				for _, each := range found {
					if err = consumer.Ack(background, each); err == nil {
						lock.Lock()
						counts[string(each.GetBody())]++
						lock.Unlock()
					}
				}
				if err != nil {
					lock.Lock()
					failures[err.Error()]++
					lock.Unlock()
				}
			}
		}()
	}
	group.Wait()
	return map[string]any{"counts": counts, "failures": failures}, nil
}

func stop(name string) error {
	if producer, ok := producers[name]; ok {
		return producer.GracefulStop()
	}
	if consumer, ok := simples[name]; ok {
		return consumer.GracefulStop()
	}
	return pushes[name].GracefulStop()
}

func answer(from asked) (any, error) {
	switch from.Op {
	case "producer.start":
		return nil, startProducer(from)
	case "producer.send":
		return receipt(producers[from.Name].Send(background, outgoing(from.Message)))
	case "producer.transaction":
		return transaction(from)
	case "producer.recall":
		_, err := producers[from.Name].Recall(background, from.Topic, from.Handle)
		return nil, err
	case "simple.start":
		consumer, err := newSimple(from)
		simples[from.Name] = consumer
		return nil, err
	case "simple.receive":
		return receive(from)
	case "simple.ack":
		return nil, simples[from.Name].Ack(background, received[from.Id])
	case "simple.change":
		return nil, simples[from.Name].ChangeInvisibleDuration(received[from.Id], time.Duration(from.InvisibleMs)*time.Millisecond)
	case "push.start":
		return nil, startPush(from)
	case "push.wait":
		return wait(from), nil
	case "crowd.start":
		return crowdStart(from)
	case "crowd.run":
		return crowdRun(from)
	}
	return nil, stop(from.Name)
}

func main() {
	out := os.Stdout
	os.Stdout = os.Stderr
	os.Setenv("mq.consoleAppender.enabled", "true")
	rmq.ResetLogger()
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(make([]byte, 1<<20), 1<<24)
	for lines.Scan() {
		var from asked
		made := map[string]any{}
		err := json.Unmarshal(lines.Bytes(), &from)
		if err == nil {
			made["ok"], err = answer(from)
		}
		if err != nil {
			facts := map[string]any{"type": fmt.Sprintf("%T", err), "message": err.Error()}
			if status, ok := rmq.AsErrRpcStatus(err); ok {
				facts["code"] = status.Code
			}
			made = map[string]any{"error": facts}
		}
		line, _ := json.Marshal(made)
		out.Write(append(line, '\n'))
	}
	os.Exit(0)
}
