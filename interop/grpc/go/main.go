// The cases of docs/compatibility.md for the official Go client; prints one line for each: name, then what happened.
package main

import (
	"context"
	"fmt"
	"os"
	"sort"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
)

var config *rmq.Config

func check(err error) {
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
}

func message(topic string, body string) *rmq.Message {
	return &rmq.Message{Topic: topic, Body: []byte(body)}
}

func receive(group string, topic string, count int, expression string) []string {
	consumer, err := rmq.NewSimpleConsumer(
		&rmq.Config{Endpoint: config.Endpoint, ConsumerGroup: group, Credentials: config.Credentials},
		rmq.WithSimpleAwaitDuration(5*time.Second),
		rmq.WithSimpleSubscriptionExpressions(map[string]*rmq.FilterExpression{topic: rmq.NewFilterExpression(expression)}))
	check(err)
	check(consumer.Start())
	found := []string{}
	for end := time.Now().Add(60 * time.Second); len(found) < count && time.Now().Before(end); {
		views, err := consumer.Receive(context.TODO(), 16, 15*time.Second)
		if err != nil {
			continue
		}
		for _, view := range views {
			found = append(found, string(view.GetBody()))
			check(consumer.Ack(context.TODO(), view))
		}
	}
	check(consumer.GracefulStop())
	return found
}

func main() {
	os.Setenv("mq.consoleAppender.enabled", "false")
	rmq.ResetLogger()
	config = &rmq.Config{Endpoint: os.Args[1], Credentials: &credentials.SessionCredentials{}}
	checker := &rmq.TransactionChecker{Check: func(view *rmq.MessageView) rmq.TransactionResolution {
		if string(view.GetBody()) == "orphan" {
			return rmq.COMMIT
		}
		return rmq.UNKNOWN
	}}
	producer, err := rmq.NewProducer(config, rmq.WithTransactionChecker(checker),
		rmq.WithTopics("orders", "fifo", "later", "money"))
	check(err)
	check(producer.Start())

	for n := 0; n < 4; n++ {
		each := message("orders", fmt.Sprintf("g%d", n))
		each.SetTag([]string{"go-even", "go-odd"}[n%2])
		_, err = producer.Send(context.TODO(), each)
		check(err)
	}
	tagged := receive("go-tagged", "orders", 2, "go-even")
	sort.Strings(tagged)
	fmt.Println("normal by tag:", tagged)

	for n := 0; n < 5; n++ {
		each := message("fifo", fmt.Sprintf("f%d", n))
		each.SetMessageGroup("one")
		_, err = producer.Send(context.TODO(), each)
		check(err)
	}
	fmt.Println("order:", receive("ordered", "fifo", 5, "*"))

	soon := message("later", "soon")
	soon.SetDelayTimestamp(time.Now().Add(2 * time.Second))
	_, err = producer.Send(context.TODO(), soon)
	check(err)
	fmt.Println("delay:", receive("go-patient", "later", 1, "*"))

	for _, ending := range []string{"committed", "rolled back", "orphan"} {
		transaction := producer.BeginTransaction()
		_, err = producer.SendWithTransaction(context.TODO(), message("money", ending), transaction)
		check(err)
		if ending == "committed" {
			check(transaction.Commit())
		} else if ending == "rolled back" {
			check(transaction.RollBack())
		}
	}
	ended := receive("go-auditors", "money", 2, "*")
	sort.Strings(ended)
	fmt.Println("transactions:", ended)
	check(producer.GracefulStop())
	os.Exit(0)
}
