// RocketMQ's Go client behind lines of JSON: ../driver.py tells what can be asked.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

const lineBytesMax = 16 << 20

var refusal = regexp.MustCompile(`^CODE: (\d+)`) // how this client tells what a broker answered

type message struct {
	Topic      string            `json:"topic"`
	Body       string            `json:"body"`
	Tags       string            `json:"tags"`
	Keys       string            `json:"keys"`
	Properties map[string]string `json:"properties"`
	Shard      *int              `json:"shard"`
	DelayLevel int               `json:"delayLevel"`
}

type arguments struct {
	Op           string    `json:"op"`
	Name         string    `json:"name"`
	Group        string    `json:"group"`
	Nameserver   string    `json:"nameserver"`
	Topic        string    `json:"topic"`
	Tags         string    `json:"tags"`
	AccessKey    string    `json:"accessKey"`
	SecretKey    string    `json:"secretKey"`
	SQL          string    `json:"sql"`
	From         string    `json:"from"`
	Mode         string    `json:"mode"`
	Broker       string    `json:"broker"`
	QueueID      int       `json:"queueId"`
	Message      message   `json:"message"`
	Messages     []message `json:"messages"`
	Count        int       `json:"count"`
	TimeoutMs    int       `json:"timeoutMs"`
	CompressOver int       `json:"compressOver"`
	Retries      int       `json:"retries"`
	FailTimes    int32     `json:"failTimes"`
	DelayLevel   int       `json:"delayLevel"`
	MaxAttempts  *int32    `json:"maxAttempts"`
	WorkMs       int       `json:"workMs"`
	Orderly      bool      `json:"orderly"`
	Broadcasting bool      `json:"broadcasting"`
	Reply        bool      `json:"reply"`
}

type object = map[string]any

// --- producers ---

// byPlace takes the queue that a message names, or its shard, or the next in turn.
type byPlace struct{ inTurn producer.QueueSelector }

func (s byPlace) Select(m *primitive.Message, queues []*primitive.MessageQueue, last string) *primitive.MessageQueue {
	sorted := append([]*primitive.MessageQueue(nil), queues...)
	sort.Slice(sorted, func(i, j int) bool { return sorted[i].QueueId < sorted[j].QueueId })
	if m.Queue != nil {
		return sorted[m.Queue.QueueId%len(sorted)]
	}
	return s.inTurn.Select(m, queues, last)
}

func messageOf(given message) *primitive.Message {
	made := primitive.NewMessage(given.Topic, []byte(given.Body))
	if given.Tags != "" {
		made.WithTag(given.Tags)
	}
	if given.Keys != "" {
		made.WithKeys(strings.Fields(given.Keys))
	}
	for name, value := range given.Properties {
		made.WithProperty(name, value)
	}
	if given.DelayLevel > 0 {
		made.WithDelayTimeLevel(given.DelayLevel)
	}
	if given.Shard != nil {
		made.Queue = &primitive.MessageQueue{Topic: given.Topic, QueueId: *given.Shard}
	}
	return made
}

func newProducer(nameserver, group, name string, more ...producer.Option) (rocketmq.Producer, error) {
	options := append([]producer.Option{
		producer.WithNameServer(primitive.NamesrvAddr{nameserver}),
		producer.WithGroupName(group),
		producer.WithInstanceName(name),
		producer.WithQueueSelector(byPlace{producer.NewRoundRobinQueueSelector()}),
	}, more...)
	made, err := rocketmq.NewProducer(options...)
	if err != nil {
		return nil, err
	}
	return made, made.Start()
}

type producers map[string]rocketmq.Producer

func (running producers) start(a arguments) (any, error) {
	options := []producer.Option{producer.WithRetry(a.Retries), producer.WithSendMsgTimeout(5 * time.Second)}
	if a.CompressOver > 0 {
		options = append(options, producer.WithCompressMsgBodyOverHowmuch(a.CompressOver))
	}
	if a.AccessKey != "" {
		options = append(options, producer.WithCredentials(credentialsOf(a)))
	}
	made, err := newProducer(a.Nameserver, a.Group, a.Name, options...)
	running[a.Name] = made
	return true, err
}

func (running producers) send(a arguments) (any, error) {
	sender, ctx := running[a.Name], context.Background()
	var messages []*primitive.Message
	for _, given := range a.Messages {
		made := messageOf(given)
		if a.Mode == "queue" {
			made.Queue = &primitive.MessageQueue{Topic: given.Topic, BrokerName: a.Broker, QueueId: a.QueueID}
		}
		messages = append(messages, made)
	}
	results := []object{}
	switch a.Mode {
	case "sync", "ordered", "queue":
		for _, each := range messages {
			result, err := sender.SendSync(ctx, each)
			if err != nil {
				return nil, err
			}
			results = append(results, resultOf(result))
		}
		return results, nil
	case "batch":
		result, err := sender.SendSync(ctx, messages...)
		if err != nil {
			return nil, err
		}
		return append(results, resultOf(result)), nil
	case "oneway":
		for _, each := range messages {
			if err := sender.SendOneWay(ctx, each); err != nil {
				return nil, err
			}
		}
		return results, nil
	case "async":
		return sendAsync(sender, messages)
	}
	return nil, fmt.Errorf("no such mode: %s", a.Mode)
}

func sendAsync(sender rocketmq.Producer, messages []*primitive.Message) (any, error) {
	results := make([]object, len(messages))
	var left sync.WaitGroup
	for number, each := range messages {
		left.Add(1)
		err := sender.SendAsync(context.Background(), func(_ context.Context, result *primitive.SendResult, err error) {
			if err != nil {
				results[number] = object{"status": "ERROR", "error": factsOf(err)}
			} else {
				results[number] = resultOf(result)
			}
			left.Done()
		}, each)
		if err != nil {
			return nil, err
		}
	}
	left.Wait()
	return results, nil
}

func (running producers) request(a arguments) (any, error) {
	ttl := time.Duration(a.TimeoutMs) * time.Millisecond
	reply, err := running[a.Name].Request(context.Background(), ttl, messageOf(a.Message))
	if err != nil {
		return nil, err
	}
	return string(reply.Body), nil
}

func (running producers) stop(a arguments) (any, error) {
	made := running[a.Name]
	delete(running, a.Name)
	return true, made.Shutdown()
}

func resultOf(result *primitive.SendResult) object {
	names := []string{"SEND_OK", "FLUSH_DISK_TIMEOUT", "FLUSH_SLAVE_TIMEOUT", "SLAVE_NOT_AVAILABLE", "UNKNOWN"}
	return object{
		"status": names[result.Status], "msgId": result.MsgID, "offsetMsgId": result.OffsetMsgID,
		"broker": result.MessageQueue.BrokerName, "queueId": result.MessageQueue.QueueId,
		"offset": result.QueueOffset, "transactionId": result.TransactionID,
	}
}

// --- push consumers ---

type listening struct {
	arguments
	consumer rocketmq.PushConsumer
	replier  rocketmq.Producer
	lock     sync.Mutex
	seen     []object
	times    map[string]int32
}

func (l *listening) hear(ctx context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
	taken := true
	for _, each := range messages {
		attempt := l.note(each)
		time.Sleep(time.Duration(l.WorkMs) * time.Millisecond)
		if l.replier != nil {
			if err := l.answer(each); err != nil {
				fmt.Fprintln(os.Stderr, "no reply:", err)
				return consumer.ConsumeRetryLater, err
			}
		}
		taken = taken && attempt >= l.FailTimes
	}
	if concurrent, found := primitive.GetConcurrentlyCtx(ctx); found && l.DelayLevel != 0 {
		concurrent.DelayLevelWhenNextConsume = l.DelayLevel
	}
	switch {
	case taken:
		return consumer.ConsumeSuccess, nil
	case l.Orderly:
		return consumer.SuspendCurrentQueueAMoment, nil
	}
	return consumer.ConsumeRetryLater, nil
}

// note keeps a message and tells how often it came before; an orderly one is counted here, in its consumer.
func (l *listening) note(m *primitive.MessageExt) int32 {
	l.lock.Lock()
	defer l.lock.Unlock()
	fields, attempt := described(m), m.ReconsumeTimes
	if l.Orderly {
		attempt = l.times[m.MsgId]
		l.times[m.MsgId]++
		fields["reconsumeTimes"] = attempt
	}
	fields["at"] = time.Now().UnixMilli()
	l.seen = append(l.seen, fields)
	return attempt
}

func (l *listening) answer(m *primitive.MessageExt) error {
	reply, err := consumer.CreateReplyMessage(m, []byte("reply to "+string(m.Body)))
	if err != nil {
		return err
	}
	_, err = l.replier.SendSync(context.Background(), reply)
	return err
}

type pushConsumers map[string]*listening

func (running pushConsumers) start(a arguments) (any, error) {
	each := &listening{arguments: a, times: map[string]int32{}}
	var err error
	if a.Reply {
		if each.replier, err = newProducer(a.Nameserver, a.Group+"-replier", a.Name+"-replier"); err != nil {
			return nil, err
		}
	}
	options := consumerOptions(a)
	if a.Orderly {
		options = append(options, consumer.WithConsumerOrder(true))
	}
	if a.Broadcasting {
		options = append(options, consumer.WithConsumerModel(consumer.BroadCasting))
	}
	if a.MaxAttempts != nil {
		options = append(options, consumer.WithMaxReconsumeTimes(*a.MaxAttempts))
	}
	if each.consumer, err = rocketmq.NewPushConsumer(options...); err != nil {
		return nil, err
	}
	if err = each.consumer.Subscribe(a.Topic, selectorOf(a), each.hear); err != nil {
		return nil, err
	}
	running[a.Name] = each
	return true, each.consumer.Start()
}

func consumerOptions(a arguments) []consumer.Option {
	places := map[string]consumer.ConsumeFromWhere{
		"": consumer.ConsumeFromFirstOffset, "CONSUME_FROM_FIRST_OFFSET": consumer.ConsumeFromFirstOffset,
		"CONSUME_FROM_LAST_OFFSET": consumer.ConsumeFromLastOffset, "CONSUME_FROM_TIMESTAMP": consumer.ConsumeFromTimestamp,
	}
	options := []consumer.Option{
		consumer.WithNameServer(primitive.NamesrvAddr{a.Nameserver}),
		consumer.WithGroupName(a.Group),
		consumer.WithInstance(a.Name),
		consumer.WithConsumeFromWhere(places[a.From]),
	}
	if a.AccessKey != "" {
		options = append(options, consumer.WithCredentials(credentialsOf(a)))
	}
	return options
}

func credentialsOf(a arguments) primitive.Credentials {
	return primitive.Credentials{AccessKey: a.AccessKey, SecretKey: a.SecretKey}
}

func selectorOf(a arguments) consumer.MessageSelector {
	switch {
	case a.SQL != "":
		return consumer.MessageSelector{Type: consumer.SQL92, Expression: a.SQL}
	case a.Tags != "":
		return consumer.MessageSelector{Type: consumer.TAG, Expression: a.Tags}
	}
	return consumer.MessageSelector{Type: consumer.TAG, Expression: "*"}
}

func (running pushConsumers) wait(a arguments) (any, error) {
	each, end := running[a.Name], time.Now().Add(time.Duration(a.TimeoutMs)*time.Millisecond)
	for {
		each.lock.Lock()
		seen := append([]object{}, each.seen...)
		each.lock.Unlock()
		if len(seen) >= a.Count || time.Now().After(end) {
			return seen, nil
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (running pushConsumers) stop(a arguments) (any, error) {
	each := running[a.Name]
	delete(running, a.Name)
	if each.replier != nil {
		if err := each.replier.Shutdown(); err != nil {
			return nil, err
		}
	}
	return true, each.consumer.Shutdown()
}

// --- pull consumers: this client has subscribed ones ---

type pullConsumers map[string]rocketmq.PullConsumer

func (running pullConsumers) start(a arguments) (any, error) {
	made, err := rocketmq.NewPullConsumer(consumerOptions(a)...)
	if err != nil {
		return nil, err
	}
	if err = made.Subscribe(a.Topic, selectorOf(a)); err != nil {
		return nil, err
	}
	running[a.Name] = made
	return true, made.Start()
}

func (running pullConsumers) poll(a arguments) (any, error) {
	each, end := running[a.Name], time.Now().Add(time.Duration(a.TimeoutMs)*time.Millisecond)
	seen := []object{}
	for len(seen) < a.Count && time.Now().Before(end) {
		request, err := each.Poll(context.Background(), 200*time.Millisecond)
		if errors.Is(err, consumer.ErrNoNewMsg) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, m := range request.GetMsgList() {
			seen = append(seen, described(m))
		}
		each.ACK(context.Background(), request, consumer.ConsumeSuccess)
	}
	return seen, nil
}

func (running pullConsumers) commit(a arguments) (any, error) {
	return true, running[a.Name].PersistOffset(context.Background(), a.Topic)
}

func (running pullConsumers) stop(a arguments) (any, error) {
	made := running[a.Name]
	delete(running, a.Name)
	return true, made.Shutdown()
}

func described(m *primitive.MessageExt) object {
	fields := object{
		"topic": m.Topic, "offset": m.QueueOffset, "position": m.CommitLogOffset,
		"msgId": m.MsgId, "offsetMsgId": m.OffsetMsgId, "keys": m.GetKeys(), "tags": m.GetTags(),
		"body": string(m.Body), "reconsumeTimes": m.ReconsumeTimes, "bornTimestamp": m.BornTimestamp,
		"storeTimestamp": m.StoreTimestamp, "properties": m.GetProperties(),
	}
	if m.Queue != nil {
		fields["broker"], fields["queueId"] = m.Queue.BrokerName, m.Queue.QueueId
	}
	return fields
}

// --- the lines ---

func factsOf(err error) object {
	facts := object{"type": fmt.Sprintf("%T", err), "message": err.Error()}
	if found := refusal.FindStringSubmatch(err.Error()); found != nil {
		facts["code"], _ = strconv.Atoi(found[1])
	}
	return facts
}

func answer(ops map[string]func(arguments) (any, error), line []byte) (result object) {
	defer func() {
		if trouble := recover(); trouble != nil {
			result = object{"error": object{"type": "panic", "message": fmt.Sprint(trouble)}}
		}
	}()
	var a arguments
	if err := json.Unmarshal(line, &a); err != nil {
		return object{"error": factsOf(err)}
	}
	op, found := ops[a.Op]
	if !found {
		return object{"error": object{"type": "LookupError", "message": "no such op: " + a.Op}}
	}
	value, err := op(a)
	if err != nil {
		return object{"error": factsOf(err)}
	}
	return object{"ok": value}
}

func main() {
	out := json.NewEncoder(os.Stdout)
	os.Stdout = os.Stderr // whatever the library prints must not get between the answers
	senders, pushes, pulls := producers{}, pushConsumers{}, pullConsumers{}
	ops := map[string]func(arguments) (any, error){
		"producer.start": senders.start, "producer.send": senders.send, "producer.request": senders.request,
		"producer.stop": senders.stop,
		"push.start":    pushes.start, "push.wait": pushes.wait, "push.stop": pushes.stop,
		"lite.start": pulls.start, "lite.poll": pulls.poll, "lite.commit": pulls.commit, "lite.stop": pulls.stop,
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, lineBytesMax)
	for lines.Scan() {
		if err := out.Encode(answer(ops, lines.Bytes())); err != nil {
			os.Exit(1)
		}
	}
}
