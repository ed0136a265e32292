package actor_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
)

// ofExchange are settings of a process whose stream orders has a queue that is bound to an
// exchange, and that knows no Kafka.
func ofExchange(exchange string, keys ...string) settings {
	return settings{
		"KAFKA_BROKERS": "", "STREAMS_ORDERS_TOPICS": "",
		"STREAMS_ORDERS_EXCHANGE": exchange, "STREAMS_ORDERS_ROUTING_KEYS": strings.Join(keys, ","),
	}
}

// topicExchange makes an exchange that is none of ours, and removes it when the test is over.
func (w *world) topicExchange() (name string, ch *amqp.Channel) {
	w.t.Helper()
	name, ch = "exchange-"+w.app, w.channel()
	if err := ch.ExchangeDeclare(name, "topic", true, false, false, false, nil); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := w.channel().ExchangeDelete(name, false, false); err != nil {
			w.t.Errorf("remove the exchange: %v", err)
		}
	})
	return name, ch
}

// publish publishes a message whose body is its routing key.
func publish(t *testing.T, ch *amqp.Channel, exchange string, keys ...string) {
	t.Helper()
	for _, key := range keys {
		if err := ch.Publish(exchange, key, false, false, amqp.Publishing{Body: []byte(key), DeliveryMode: amqp.Persistent}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWhatIsPublishedToAnExchangeWithOneOfItsKeysIsHandled(t *testing.T) {
	t.Parallel()
	onBrokers(t, func(t *testing.T, w *world) {
		exchange, ch := w.topicExchange()
		own := w.queue("orders", "source")
		t.Cleanup(func() { w.deleteQueue(own) })
		var seen calls
		handler := seeing(&seen, func(m *stepwell.Message) error {
			if m.Attempt < 3 {
				return errFlaky
			}
			return nil
		})
		env := ofExchange(exchange, "order.*", "refund.#")
		r := w.start(orders(handler), env)
		r.ready()
		publish(t, ch, exchange, "order.new", "order.new.late", "refund", "refund.a.b", "parcel.new")
		eventually(t, "those with its keys", func() bool {
			return seen.of("order.new", 3) == 1 && seen.of("refund", 3) == 1 && seen.of("refund.a.b", 3) == 1
		})
		r.queuesEmpty()
		for _, s := range seen.all() {
			if q := s.m.Origin.Queue; q == nil || q.Name != own || q.Exchange != exchange || q.RoutingKey != string(s.m.Value) || s.m.ID == "" {
				t.Errorf("a message has %+v", q)
			}
		}
		if n := len(seen.all()); n != 9 {
			t.Errorf("%d calls, want three of three messages", n)
		}
		// While nobody runs the queue keeps what comes, and what a start makes again is as it was.
		r.end()
		publish(t, ch, exchange, "order.meanwhile")
		w.start(orders(handler), env)
		eventually(t, "what came meanwhile", func() bool { return seen.of("order.meanwhile", 3) == 1 })
		// Somebody deletes it: it is there again, and bound, without a restart.
		w.deleteQueue(own)
		eventually(t, "what comes after it was deleted", func() bool {
			publish(t, ch, exchange, "order.again")
			return seen.of("order.again", 3) > 0
		})
		out, err := w.actorCommand(t, []string{"topology"}, env).Output()
		if want := fmt.Sprintf("%s bound to exchange %s by key refund.#", own, exchange); err != nil || !strings.Contains(string(out), want) {
			t.Errorf("topology: %v\n%s\nhas no %q", err, out, want)
		}
	})
}

func TestAnExchangeThatIsMissingIsWaitedForAndNamed(t *testing.T) {
	t.Parallel()
	onBrokers(t, func(t *testing.T, w *world) {
		name := "exchange-" + w.app
		t.Cleanup(func() { w.deleteQueue(w.queue("orders", "source")) })
		var seen calls
		r := w.start(orders(seeing(&seen, works)), ofExchange(name, "#"))
		r.notReady("exchange " + name)
		_, ch := w.topicExchange()
		r.ready()
		publish(t, ch, name, "order.new")
		eventually(t, "a message", func() bool { return seen.of("order.new", 1) == 1 })
	})
}

func TestAPartThatDoesNotConsumeTheQueueOfAnExchangeSaysSo(t *testing.T) {
	t.Parallel()
	onBrokers(t, func(t *testing.T, w *world) {
		r := w.start(orders(seeing(&calls{}, works)), ofExchange("exchange-"+w.app, "#").with(settings{"MODES": "retries"}))
		r.ready()
		status, answer := r.do("GET", "/readyz?verbose", "")
		if want := "queue " + w.queue("orders", "source") + " is not consumed here"; status != 200 || !strings.Contains(fmt.Sprint(answer), want) {
			t.Errorf("the probe says %d %v, not %q", status, answer, want)
		}
	})
}

func TestEachMistakeOfAStreamWithAnExchangeIsNamed(t *testing.T) {
	const exchange, keys = "STREAMS_ORDERS_EXCHANGE=e", "STREAMS_ORDERS_ROUTING_KEYS=k"
	for name, test := range map[string]struct {
		env  []string
		want string // empty: it is none
	}{
		"well":                     {[]string{exchange, keys}, ""},
		"a queue too":              {[]string{exchange, keys, "STREAMS_ORDERS_QUEUE=q"}, "STREAMS_ORDERS_EXCHANGE: \"e\" cannot be beside STREAMS_ORDERS_QUEUE"},
		"a queue, and no keys":     {[]string{exchange, "STREAMS_ORDERS_QUEUE=q"}, "STREAMS_ORDERS_EXCHANGE: \"e\" cannot be beside STREAMS_ORDERS_QUEUE"},
		"keys alone":               {[]string{keys}, "is for a stream with an exchange, and STREAMS_ORDERS_EXCHANGE is not set"},
		"keys, and topics":         {[]string{keys, "STREAMS_ORDERS_TOPICS=t", "KAFKA_BROKERS=b:1"}, "is for a stream with an exchange, and STREAMS_ORDERS_EXCHANGE is not set"},
		"keys without an exchange": {[]string{keys, "STREAMS_ORDERS_QUEUE=q"}, "is for a stream with an exchange, and STREAMS_ORDERS_EXCHANGE is not set"},
		"an exchange without keys": {[]string{exchange}, "STREAMS_ORDERS_ROUTING_KEYS: is required beside an exchange"},
		"a long key":               {[]string{exchange, keys + "," + strings.Repeat("k", 256)}, "a key that is longer than 255 bytes"},
		"topics":                   {[]string{exchange, keys, "STREAMS_ORDERS_TOPICS=t"}, "this one has what is published to exchange e, and nothing else"},
		"order":                    {[]string{exchange, keys, "STREAMS_ORDERS_ORDER=key"}, "STREAMS_ORDERS_ORDER: is for streams that read Kafka"},
	} {
		t.Run(name, func(t *testing.T) {
			app := orders(seeing(&calls{}, works))
			app.Name = "shop"
			_, err := actor.Load(app, append([]string{"RABBITMQ_URL=amqp://localhost"}, test.env...))
			switch {
			case test.want == "" && err != nil:
				t.Error(err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("%v, want %q", err, test.want)
			case test.want != "" && strings.Count(err.Error(), "\n") != 1:
				t.Errorf("one mistake, and more than one complaint: %v", err)
			}
		})
	}
}

// It is not unbound: another process may consume it still, and who takes the setting back misses
// nothing.
func TestARetiredStreamWhoseQueueIsBoundSaysThatItFills(t *testing.T) {
	t.Parallel()
	w := embeddedWorld(t)
	r := w.start(orders(func(context.Context, *stepwell.Message) error { return nil }), ofExchange("events", "#").with(settings{"STREAMS_ORDERS_RETIRED": "true"}))
	r.ready()
	if _, _, text := r.health(); !strings.Contains(text, w.queue("orders", "source")+" is consumed no more, and fills for as long as it is bound to exchange events") {
		t.Errorf("readyz says %s", text)
	}
}

func TestTheQueueOfAnExchangeThatAStreamNoLongerHasIsTold(t *testing.T) {
	onBrokers(t, func(t *testing.T, w *world) {
		exchange, ch := w.topicExchange()
		own := w.queue("orders", "source")
		t.Cleanup(func() { w.deleteQueue(own) })
		app, log := logged(orders(seeing(&calls{}, works)))
		r := w.start(app, ofExchange(exchange, "#"))
		r.ready()
		r.end()
		publish(t, ch, exchange, "order.meanwhile")
		if log.said("is still there", own) {
			t.Errorf("it is told of though it is consumed: %s", log)
		}
		r = w.start(app, settings{})
		r.ready()
		eventually(t, "the log tells of it", func() bool {
			return log.said("WARN", "is still there", own, `"messages":1`, "STREAMS_ORDERS_EXCHANGE")
		})
		r.end()

		w.deleteQueue(own)
		var seen calls
		app, log = logged(orders(seeing(&seen, works)))
		r = w.start(app, settings{})
		w.produce(values("a")...)
		eventually(t, "a record", func() bool { return seen.of("a", 1) == 1 })
		r.end()
		if log.said("is still there") {
			t.Errorf("it is told of though it is deleted: %s", log)
		}
	})
}

func TestOnEmbeddedBrokersTheStreamsOfAnExchangeHandleWhatTheirKeysTake(t *testing.T) {
	t.Parallel()
	w := embeddedWorld(t)
	publish := func(keys ...string) {
		t.Helper()
		for _, key := range keys {
			err := w.brokers.PublishToExchange(t.Context(), "events", key, stepwell.Message{ID: "id of " + key, Value: []byte(key), Headers: []stepwell.Header{{Key: "h", Value: []byte("v")}}})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	var seen calls
	twice := seeing(&seen, func(m *stepwell.Message) error {
		if m.Attempt < 2 {
			return errFlaky
		}
		return nil
	})
	app := orders(twice)
	app.Streams["parcels"] = actor.Stream{Handler: twice}
	r := w.start(app, ofExchange("events", "order.*", "#.new").with(settings{"STREAMS_PARCELS_EXCHANGE": "events", "STREAMS_PARCELS_ROUTING_KEYS": "parcel.#"}))
	publish("order.late") // as soon as a test can: it waits for the binding
	r.ready()
	publish("order.new", "parcel", "parcel.very.new")
	all := map[string]int{"order.late": 1, "order.new": 1, "parcel": 1, "parcel.very.new": 2} // of how many streams
	eventually(t, "a second try of each", func() bool {
		for key, streams := range all {
			if seen.of(key, 2) < streams {
				return false
			}
		}
		return true
	})
	r.queuesEmpty()
	for key, streams := range all {
		if first, second := seen.of(key, 1), seen.of(key, 2); first != streams || second != streams {
			t.Errorf("%s has %d first and %d second tries, and is for %d streams", key, first, second, streams)
		}
	}
	for _, s := range seen.all() {
		want := stepwell.QueueOrigin{Name: w.queue(s.m.Stream, "source"), Exchange: "events", RoutingKey: string(s.m.Value)}
		if header, _ := s.m.Header("h"); *s.m.Origin.Queue != want || s.m.ID != "id of "+want.RoutingKey || string(header) != "v" {
			t.Errorf("try %d has id %s, header %q, origin %+v; want %+v", s.m.Attempt, s.m.ID, header, *s.m.Origin.Queue, want)
		}
	}
}
