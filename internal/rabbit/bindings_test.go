package rabbit

import (
	"context"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/stepwell/stepwell/internal/queue"
)

// bound makes an exchange and a queue that a broker has bound to it by the key a.
func bound(t *testing.T, url string, interval time.Duration) (b *Broker, name, exchange string) {
	t.Helper()
	name = newNames(t, url).instant
	exchange = name + ".exchange"
	makeExchange(t, url, exchange)
	t.Cleanup(func() { deleteExchange(t, url, exchange) })
	b, _ = run(t, Config{URLs: []string{url}, BindInterval: interval})
	declare(t, b, []queue.Spec{{Name: name, Kind: queue.Source, Exchange: exchange, Keys: []string{"a"}}})
	return b, name, exchange
}

func makeExchange(t *testing.T, url, exchange string) {
	t.Helper()
	raw(t, url, func(ch *amqp.Channel) error {
		return ch.ExchangeDeclare(exchange, "topic", true, false, false, false, nil)
	})
}

func deleteExchange(t *testing.T, url, exchange string) {
	t.Helper()
	raw(t, url, func(ch *amqp.Channel) error { return ch.ExchangeDelete(exchange, false, false) })
}

// routed publishes a message, and says whether a queue has that.
func routed(t *testing.T, url, exchange, key string, m amqp.Publishing) (is bool) {
	t.Helper()
	raw(t, url, func(ch *amqp.Channel) error {
		if err := ch.Confirm(false); err != nil {
			return err
		}
		returned := ch.NotifyReturn(make(chan amqp.Return, 1))
		confirm, err := ch.PublishWithDeferredConfirmWithContext(t.Context(), exchange, key, true, false, m)
		if err != nil {
			return err
		}
		_, err = confirm.WaitContext(within(t, 20*time.Second))
		is = len(returned) == 0 // which comes before the confirm
		return err
	})
	return is
}

func routedByA(t *testing.T, url, exchange string) bool {
	t.Helper()
	return routed(t, url, exchange, "a", amqp.Publishing{Body: []byte("x")})
}

func TestABindingThatSomebodyTookAwayIsThereAgain(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		_, name, exchange := bound(t, url, 100*time.Millisecond)
		raw(t, url, func(ch *amqp.Channel) error { return ch.QueueUnbind(name, "a", exchange, nil) })
		eventually(t, 20*time.Second, "a message with the key", func() bool { return routedByA(t, url, exchange) })
	})
}

// Bindings are asked for by hand: where that meets the deletion of a topic exchange RabbitMQ 4.3.6
// keeps a binding that routes nothing, and says from then on that all is bound.
func TestAnExchangeThatIsMadeAnewIsMissedAndThenBoundAgain(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		b, _, exchange := bound(t, url, time.Hour)
		again := func() {
			s, _ := b.consume.current()
			b.topology.bindAgain(context.Background(), s)
		}
		deleteExchange(t, url, exchange)
		again()
		if says := b.Status().Detail; !strings.Contains(says, "exchange "+exchange+" does not exist") {
			t.Errorf("without the exchange: %q", says)
		}
		makeExchange(t, url, exchange)
		if routedByA(t, url, exchange) {
			t.Error("an exchange that was made anew has its bindings: there is nothing to do")
		}
		again()
		if says := b.Status().Detail; strings.Contains(says, exchange) || !routedByA(t, url, exchange) {
			t.Errorf("with the exchange: %q, or nothing is routed", says)
		}
	})
}

// Queues that others need come before those that are bound; of the latter this one comes after the
// one whose exchange is missing.
func TestAnExchangeThatIsMissingKeepsNoOtherQueueFromBeingDeclaredAgain(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		b, _, exchange := bound(t, url, time.Hour)
		n, source := newNames(t, url), newNames(t, url).instant
		other := source + ".exchange"
		makeExchange(t, url, other)
		t.Cleanup(func() { deleteExchange(t, url, other) })
		declare(t, b, append(n.specs(), queue.Spec{Name: source, Kind: queue.Source, Exchange: other, Keys: []string{"a"}}))
		deleteExchange(t, url, exchange)
		deleteQueue(t, url, n.instant)
		deleteQueue(t, url, source)
		b.topology.missing(n.instant)
		for what, name := range map[string]string{"the instant queue": n.instant, "the queue of the other exchange": source} {
			eventually(t, 20*time.Second, what+" is declared again", func() bool {
				_, err := b.Depth(t.Context(), name)
				return err == nil
			})
		}
		eventually(t, 20*time.Second, "it is bound again", func() bool { return routedByA(t, url, other) })
		eventually(t, 20*time.Second, "the exchange is missed still", func() bool {
			return strings.Contains(b.Status().Detail, "exchange "+exchange+" does not exist")
		})
	})
}
