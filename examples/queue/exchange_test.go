package main

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/stepwell/stepwell/actortest"
	"github.com/stepwell/stepwell/internal/testbroker"
)

// exchange is a topic exchange of another program, on a real RabbitMQ.
type exchange struct {
	name    string
	channel *amqp.Channel
	returns chan amqp.Return
}

// newExchange makes one, and removes it with the queues of the app when the test is over.
func newExchange(t *testing.T, node testbroker.Node, app string) *exchange {
	t.Helper()
	connection, err := amqp.Dial(node.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	channel, err := connection.Channel()
	if err != nil {
		t.Fatal(err)
	}
	e := &exchange{"events-" + app, channel, channel.NotifyReturn(make(chan amqp.Return, 1))}
	if err := channel.ExchangeDeclare(e.name, "topic", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if err := channel.Confirm(false); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, queue := range []string{"source", "instant", "delay.50", "delay.100", "dead_set"} {
			if _, err := channel.QueueDelete(app+".payments."+queue, false, false, false); err != nil {
				t.Error(err)
			}
		}
		if err := channel.ExchangeDelete(e.name, false, false); err != nil {
			t.Error(err)
		}
	})
	return e
}

// publish says whether a queue took the message: none does before one is bound by such a key.
func (e *exchange) publish(t *testing.T, key, body string) (taken bool) {
	t.Helper()
	confirm, err := e.channel.PublishWithDeferredConfirm(e.name, key, true, false, amqp.Publishing{Body: []byte(body), DeliveryMode: amqp.Persistent})
	if err != nil || !confirm.Wait() {
		t.Fatalf("publish: %v", err)
	}
	select {
	case <-e.returns: // which comes before the confirm
		return false
	default:
		return true
	}
}

// charged is a call of the bank.
type charged struct {
	country string
	payment Payment
}

func TestAPaymentIsChargedInTheCountryOfItsRoutingKeyAlsoWhenItIsTriedAgain(t *testing.T) {
	for _, node := range testbroker.Sample(t, testbroker.RabbitMQs(t)) {
		t.Run(node.Version, func(t *testing.T) {
			name := fmt.Sprintf("billing-%d", time.Now().UnixNano())
			events := newExchange(t, node, name)
			calls := make(chan charged, 10)
			app := app(func(_ context.Context, country string, p Payment) error {
				if calls <- (charged{country, p}); p.Order == "17" && len(calls) == 1 {
					return errors.New("the bank is away")
				}
				return nil
			})
			a := actortest.Start(t, app, "SERVER_ADDRESS=off", "APP_NAME="+name, "RABBITMQ_URL="+node.URL, "RABBITMQ_RECORDS=false", "STREAMS_PAYMENTS_EXCHANGE="+events.name, "RETRY_DELAY=50ms", "RETRY_COUNT=2")
			a.Await("the queue is bound", func() bool { return events.publish(t, "payment.de", `{"Order":"17","Cents":1250}`) })
			a.Await("the payment is charged at its second try", func() bool { return len(calls) == 2 })
			if events.publish(t, "refund.de", `{"Order":"17","Cents":1250}`) {
				t.Error("a queue took what has another key")
			}
			if !events.publish(t, "payment.fr", `{"Order":"18","Cents":900}`) {
				t.Error("no queue took a payment of fr")
			}
			a.Await("the next payment is charged", func() bool { return len(calls) == 3 })
			for _, want := range []charged{{"de", Payment{"17", 1250}}, {"de", Payment{"17", 1250}}, {"fr", Payment{"18", 900}}} {
				if got := <-calls; got != want {
					t.Errorf("charged %+v, want %+v", got, want)
				}
			}
		})
	}
}
