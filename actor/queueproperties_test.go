package actor_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/queue"
)

// An expiration would drop what is parked, CC and BCC would copy it, and RabbitMQ 3.10 takes a
// message with the x-death of another way for one that goes round in circles.
func TestWhatWouldExpireOrCopyAParkedMessageIsAHeaderForTheHandlerAndIsNotPublishedAgain(t *testing.T) {
	onQueues(t, func(t *testing.T, w *world, name string, ch *amqp.Channel) {
		second, third, origin := w.beside(t, ch, "second", nil), w.beside(t, ch, "third", nil), w.beside(t, ch, "origin", amqp.Table{
			"x-dead-letter-exchange": "", "x-dead-letter-routing-key": name,
		})
		const times = 2 // one of each waits in the end, and one is dead
		for _, value := range []string{"waits", "dies"} {
			put(t, ch, name, amqp.Publishing{
				MessageId: "copied", Body: []byte(value), Expiration: "600000", Headers: amqp.Table{"CC": []any{second}, "BCC": []any{third}},
			})
			put(t, ch, origin, amqp.Publishing{MessageId: "dead-lettered", Body: []byte(value)})
		}
		eventually(t, "RabbitMQ has copied what was published", func() bool { return depthOf(t, ch, second) == times && depthOf(t, ch, third) == times })
		refuse(t, ch, origin, times)

		var seen calls
		r := w.start(orders(seeing(&seen, func(m *stepwell.Message) error {
			switch {
			case m.Attempt == 1:
				return errFlaky
			case string(m.Value) == "dies":
				return stepwell.DeadLetter(errFlaky)
			}
			return stepwell.RetryAfter(errFlaky, time.Hour)
		})), ofQueue(name))
		r.ready()
		waits, dead := w.queue("orders", "delay.3600000"), w.queue("orders", "dead_set")
		eventually(t, "each was tried twice", func() bool { return len(seen.all()) == 4*times })
		eventually(t, "all are parked", func() bool { return r.depths()[waits] == times && depthOf(t, ch, dead) == times })

		for _, c := range seen.all() {
			switch c.m.ID {
			case "copied":
				shows(t, &c.m, "expiration", "600000")
				shows(t, &c.m, "CC", `["`+second+`"]`)
			case "dead-lettered":
				shows(t, &c.m, "x-first-death-queue", origin)
				shows(t, &c.m, "x-first-death-reason", "rejected")
				text, _ := c.m.Header("x-death")
				var deaths []map[string]any
				if err := json.Unmarshal(text, &deaths); err != nil || len(deaths) != 1 || deaths[0]["queue"] != origin || deaths[0]["reason"] != "rejected" {
					t.Errorf("attempt %d of %s has x-death=%s, %v", c.m.Attempt, c.m.ID, text, err)
				}
			default:
				t.Errorf("a message with the id %q came", c.m.ID)
			}
		}
		for _, parked := range []string{waits, dead} {
			for _, d := range held(t, w.channel(), parked, times) {
				if d.Expiration != "" {
					t.Errorf("%s in %s expires after %s ms", d.MessageId, parked, d.Expiration)
				}
				for header := range d.Headers {
					if queue.OfBroker(header) && !strings.HasSuffix(header, "-count") { // those of counts are of this queue
						t.Errorf("%s in %s has the header %s", d.MessageId, parked, header)
					}
				}
			}
		}
		if n, m := depthOf(t, ch, second), depthOf(t, ch, third); n != times || m != times {
			t.Errorf("%d and %d messages are in the queues that CC and BCC name, want the %d of the producer", n, m, times)
		}
	})
}

// beside makes a durable queue that is none of ours, and removes it when the test is over.
func (w *world) beside(t *testing.T, ch *amqp.Channel, what string, arguments amqp.Table) (name string) {
	t.Helper()
	name = "foreign-" + w.app + "-" + what
	if _, err := ch.QueueDeclare(name, true, false, false, false, arguments); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := w.channel().QueueDelete(name, false, false, false); err != nil {
			t.Errorf("remove queue %s: %v", name, err)
		}
	})
	return name
}

// refuse takes so many messages and refuses them, so that they are dead-lettered.
func refuse(t *testing.T, ch *amqp.Channel, name string, n int) {
	t.Helper()
	for refused := 0; refused < n; {
		eventually(t, "there is one to refuse in "+name, func() bool {
			d, ok, err := ch.Get(name, false)
			if err != nil {
				t.Fatal(err)
			}
			if ok {
				refused++
				err = d.Nack(false, false)
			}
			return ok && err == nil
		})
	}
}

// held are so many messages of a queue, which has them again when the channel is closed.
func held(t *testing.T, ch *amqp.Channel, name string, n int) (all []amqp.Delivery) {
	t.Helper()
	if err := ch.Qos(n, 0, false); err != nil {
		t.Fatal(err)
	}
	deliveries, err := ch.Consume(name, "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "all of "+name+" are handed out", func() bool {
		select {
		case d := <-deliveries:
			all = append(all, d)
		default:
		}
		return len(all) == n
	})
	return all
}

// shows checks what a handler sees of a header.
func shows(t *testing.T, m *stepwell.Message, header, want string) {
	t.Helper()
	if has, ok := m.Header(header); !ok || string(has) != want {
		t.Errorf("attempt %d of %s has %s=%q, want %q", m.Attempt, m.ID, header, has, want)
	}
}
