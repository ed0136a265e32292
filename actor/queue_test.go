package actor_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
)

// foreign makes a queue that is none of ours, of the type, and removes it when the test is over.
func (w *world) foreign(t *testing.T, kind string) (name string, ch *amqp.Channel) {
	t.Helper()
	name, ch = "foreign-"+w.app+"-"+kind, w.channel()
	if _, err := ch.QueueDeclare(name, true, false, false, false, amqp.Table{"x-queue-type": kind}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := w.channel().QueueDelete(name, false, false, false); err != nil {
			t.Errorf("remove the foreign queue: %v", err)
		}
	})
	return name, ch
}

// put publishes to the default exchange, and waits for no confirm.
func put(t *testing.T, ch *amqp.Channel, name string, all ...amqp.Publishing) {
	t.Helper()
	for _, m := range all {
		m.DeliveryMode = amqp.Persistent
		if err := ch.Publish("", name, true, false, m); err != nil {
			t.Fatal(err)
		}
	}
}

// depthOf is how many messages are ready in a queue.
func depthOf(t *testing.T, ch *amqp.Channel, name string) int {
	t.Helper()
	q, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	return q.Messages
}

// ofQueue are settings of a process whose stream orders consumes a queue, and that knows no Kafka.
func ofQueue(name string) settings {
	return settings{"KAFKA_BROKERS": "", "STREAMS_ORDERS_TOPICS": "", "STREAMS_ORDERS_QUEUE": name}
}

// onQueues runs the test on one of the RabbitMQs, with a queue of each type that can be consumed.
func onQueues(t *testing.T, test func(t *testing.T, w *world, name string, ch *amqp.Channel)) {
	t.Parallel()
	for _, kind := range []string{"classic", "quorum"} {
		t.Run(kind, func(t *testing.T) {
			onBrokers(t, func(t *testing.T, w *world) {
				name, ch := w.foreign(t, kind)
				test(t, w, name, ch)
			})
		})
	}
}

func TestATimestampInMillisecondsLosesNothingAndHidesNoOther(t *testing.T) {
	onQueues(t, func(t *testing.T, w *world, name string, ch *amqp.Channel) {
		var seen calls
		r := w.start(orders(seeing(&seen, func(*stepwell.Message) error { return errFlaky })), ofQueue(name).with(settings{"RETRY_COUNT": "1"}))
		r.ready()
		ms := time.Unix(1_700_000_000_000, 0) // AMQP has seconds
		put(t, ch, name, amqp.Publishing{MessageId: "ms", Timestamp: ms, Headers: amqp.Table{"when": ms}}, amqp.Publishing{MessageId: "ok"})
		eventually(t, "both are dead", func() bool { return len(r.dead(2)) == 2 })
		for _, s := range seen.all() {
			if at := time.Since(s.m.Time); at < 0 || at > time.Hour {
				t.Errorf("%s has the time %s", s.m.ID, s.m.Time)
			}
			for key, want := range map[string]string{"timestamp": "55840-11-08T22:13:20Z", "when": "55840-11-08"} {
				if text, _ := s.m.Header(key); s.m.ID == "ms" && !strings.HasPrefix(string(text), want) {
					t.Errorf("%s is %q, want %s", key, text, want)
				}
			}
		}
	})
}

func TestPropertiesHeadersAndRoutingKeySurviveThreeRetriesAndAReplay(t *testing.T) {
	onQueues(t, func(t *testing.T, w *world, name string, ch *amqp.Channel) {
		exchange := "exchange-" + w.app
		if err := ch.ExchangeDeclare(exchange, "topic", false, true, false, false, nil); err != nil {
			t.Fatal(err)
		}
		if err := ch.QueueBind(name, "order.*", exchange, false, nil); err != nil {
			t.Fatal(err)
		}
		var seen calls
		r := w.start(orders(seeing(&seen, func(*stepwell.Message) error { return errFlaky })), ofQueue(name).with(settings{"RETRY_COUNT": "3"}))
		r.ready()
		at := time.Unix(1_700_000_000, 0)
		err := ch.Publish(exchange, "order.a b", true, false, amqp.Publishing{
			MessageId: "order-17", Body: []byte{0, 255}, ContentType: "text/x", Priority: 3, CorrelationId: "c", ReplyTo: "replies", Type: "t", AppId: "shop", UserId: "guest",
			Timestamp: at, Headers: amqp.Table{"n": int32(7), "b": []byte{1, 255}, "s": "text", "x-stepwell": "theirs", "list": []any{int64(1), "two"}, "nothing": nil},
		})
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "it is dead after four tries", func() bool { return len(r.dead(1)) == 1 })
		entry := r.dead(1)[0]
		if entry["queue"] != name || entry["exchange"] != exchange || entry["routing_key"] != "order.a b" || entry["topic"] != "" {
			t.Errorf("the dead set shows %v", entry)
		}
		if status, answer := r.do("POST", "/v1/dead_set/replay", `{"stream":"orders","count":1}`); status != 200 {
			t.Fatalf("replay: %d %v", status, answer)
		}
		eventually(t, "it is dead again", func() bool { return len(seen.all()) == 8 && len(r.dead(1)) == 1 })
		want := map[string]string{
			"content-type": "text/x", "priority": "3", "correlation-id": "c", "reply-to": "replies", "type": "t", "app-id": "shop", "user-id": "guest", "message-id": "order-17",
			"timestamp": at.UTC().Format(time.RFC3339), "n": "7", "b": "\x01\xff", "s": "text", "x-stepwell": "theirs", "list": `[1,"two"]`,
		}
		for i, s := range seen.all() {
			m := s.m
			q := m.Origin.Queue
			if m.ID != "order-17" || string(m.Value) != "\x00\xff" || m.Key != nil || !m.Time.Equal(at) || q == nil || *q != (stepwell.QueueOrigin{Name: name, Exchange: exchange, RoutingKey: "order.a b"}) {
				t.Errorf("call %d has %+v of %+v", i, m, q)
			}
			if m.Attempt != i%4+1 || m.Replays != i/4 {
				t.Errorf("call %d is attempt %d after %d replays", i, m.Attempt, m.Replays)
			}
			for header, value := range want {
				if has, ok := m.Header(header); !ok || string(has) != value {
					t.Errorf("call %d has %s=%q, want %q", i, header, has, value)
				}
			}
			if v, ok := m.Header("nothing"); !ok || v != nil {
				t.Errorf("call %d has nothing=%q, %v", i, v, ok)
			}
		}
		if n := depthOf(t, ch, name); n != 0 {
			t.Errorf("%d messages are in the queue still", n)
		}
	})
}

// They are the same in all else, too: nothing but a token of their own tells them apart.
func TestTwoMessagesWithOneMessageIDAreBothHandled(t *testing.T) {
	onQueues(t, func(t *testing.T, w *world, name string, ch *amqp.Channel) {
		var seen calls
		r := w.start(orders(seeing(&seen, func(m *stepwell.Message) error {
			if m.Attempt < 3 {
				return errFlaky
			}
			return nil
		})), ofQueue(name))
		for _, id := range []string{"", "one", strings.Repeat("i", 255)} {
			m := amqp.Publishing{MessageId: id, Timestamp: time.Unix(1_700_000_000, 0), Body: []byte("a")}
			put(t, ch, name, m, m)
		}
		eventually(t, "all are done", func() bool { return seen.of("a", 3) == 6 })
		r.queuesEmpty()
		ids := map[string]int{}
		for _, s := range seen.all() {
			ids[s.m.ID]++
		}
		if len(ids) != 4 || ids["one"] != 6 {
			t.Errorf("tries by id: %v", ids)
		}
	})
}

func TestAStreamQueueAsSourceDoesNotStart(t *testing.T) {
	t.Parallel()
	onBrokers(t, func(t *testing.T, w *world) {
		name, ch := w.foreign(t, "stream")
		put(t, ch, name, amqp.Publishing{Body: []byte("x")})
		var seen calls
		r := w.start(orders(seeing(&seen, works)), ofQueue(name))
		eventually(t, "the probe says why", func() bool {
			status, answer := r.do("GET", "/readyz?verbose", "")
			return status == 503 && strings.Contains(fmt.Sprint(answer), name+": it is a stream (x-queue-type)")
		})
		put(t, ch, name, amqp.Publishing{Body: []byte("y")}) // all that a consumer would be handed
		always(t, "none is called", 500*time.Millisecond, func() bool { return len(seen.all()) == 0 })
	})
}

func TestASourceThatIsMadeAnewAsAStreamIsToldByTheProbe(t *testing.T) {
	t.Parallel()
	onBrokers(t, func(t *testing.T, w *world) {
		name, ch := w.foreign(t, "classic")
		var seen calls
		r := w.start(orders(seeing(&seen, works)), ofQueue(name))
		r.ready()
		remake := func(kind, value string) {
			t.Helper()
			if _, err := ch.QueueDelete(name, false, false, false); err != nil {
				t.Fatal(err)
			}
			if _, err := ch.QueueDeclare(name, true, false, false, false, amqp.Table{"x-queue-type": kind}); err != nil {
				t.Fatal(err)
			}
			put(t, ch, name, amqp.Publishing{Body: []byte(value)})
		}
		remake("stream", "backlog")
		eventually(t, "the probe says why", func() bool {
			status, answer := r.do("GET", "/readyz?verbose", "")
			return status == 503 && strings.Contains(fmt.Sprint(answer), name+": it is a stream (x-queue-type)")
		})
		remake("quorum", "x")
		eventually(t, "what is in a queue is handled", func() bool { return seen.of("x", 1) == 1 })
		r.ready()
		if all := seen.all(); len(all) != 1 {
			t.Errorf("%d calls", len(all))
		}
	})
}

func TestAQueueThatIsMissingIsWaitedForAndNamed(t *testing.T) {
	t.Parallel()
	onBrokers(t, func(t *testing.T, w *world) {
		name := "foreign-" + w.app
		var seen calls
		r := w.start(orders(seeing(&seen, works)), ofQueue(name))
		eventually(t, "the probe says what it waits for", func() bool {
			status, answer := r.do("GET", "/readyz?verbose", "")
			return status == 503 && strings.Contains(fmt.Sprint(answer), "waits for queue "+name+", which does not exist")
		})
		ch := w.channel()
		if _, err := ch.QueueDeclare(name, true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _, _ = w.channel().QueueDelete(name, false, false, false) }) // that it is there was seen above
		put(t, ch, name, amqp.Publishing{Body: []byte("x")})
		eventually(t, "it is handled", func() bool { return seen.of("x", 1) == 1 })
		r.ready()
		if status := r.status("orders"); status["source"] != "queue" || status["reads"] != true || status["stuck"] != false {
			t.Errorf("the API says %v", status)
		}
	})
}

func TestAPausedStreamGivesItsQueueBack(t *testing.T) {
	onQueues(t, func(t *testing.T, w *world, name string, ch *amqp.Channel) {
		var seen calls
		r := w.start(orders(seeing(&seen, works)), ofQueue(name))
		r.ready()
		if status, _ := r.do("POST", "/v1/streams/orders/pause", ""); status != 200 {
			t.Fatalf("pause: %d", status)
		}
		put(t, ch, name, amqp.Publishing{Body: []byte("x")}, amqp.Publishing{Body: []byte("y")})
		eventually(t, "both rest in the queue", func() bool { return depthOf(t, ch, name) == 2 })
		always(t, "none is called", 500*time.Millisecond, func() bool { return len(seen.all()) == 0 })
		if status, _ := r.do("POST", "/v1/streams/orders/resume", ""); status != 200 {
			t.Fatalf("resume: %d", status)
		}
		eventually(t, "both are handled", func() bool { return seen.of("x", 1) == 1 && seen.of("y", 1) == 1 })
		r.queuesEmpty()
	})
}

func TestWhatCannotBeParkedStaysInItsQueueAndIsTold(t *testing.T) {
	onQueues(t, func(t *testing.T, w *world, name string, ch *amqp.Channel) {
		var seen calls
		r := w.start(orders(seeing(&seen, func(m *stepwell.Message) error {
			if len(m.Value) > 1 {
				return errFlaky
			}
			return nil
		})), ofQueue(name).with(settings{"RABBITMQ_MAX_MESSAGE_SIZE": "80KiB"}))
		put(t, ch, name, amqp.Publishing{MessageId: "order-17", Body: incompressible(200 << 10)}, amqp.Publishing{Body: []byte("x")})
		eventually(t, "the one beside it is handled", func() bool { return seen.of("x", 1) == 1 })
		eventually(t, "the probe tells which it is, and which setting to raise", func() bool {
			_, answer := r.do("GET", "/readyz?verbose", "")
			return strings.Contains(fmt.Sprint(answer), ", 1 messages are too large to be parked and are held until a stop, the last one is order-17 of queue "+name+
				", of 204808 bytes: raise RABBITMQ_MAX_MESSAGE_SIZE, and what RabbitMQ takes")
		})
		if said := fmt.Sprint(r.do("GET", "/readyz?verbose", "")); strings.Contains(said, "next attempt") {
			t.Errorf("the probe promises another attempt: %s", said)
		}
		r.end()
		eventually(t, "it is in its queue", func() bool { return depthOf(t, ch, name) == 1 })
	})
}

func TestAMessageThatCameBackAndFitsCompressedAloneIsHandled(t *testing.T) {
	onQueues(t, func(t *testing.T, w *world, name string, ch *amqp.Channel) {
		body := bytes.Repeat([]byte("much the same "), 20_000)
		put(t, ch, name, amqp.Publishing{Body: body})
		eventually(t, "it is there", func() bool { return depthOf(t, ch, name) == 1 })
		other := w.channel()
		if _, ok, err := other.Get(name, false); err != nil || !ok {
			t.Fatalf("it is not handed out: %t, %v", ok, err)
		}
		if err := other.Close(); err != nil { // which gives it back
			t.Fatal(err)
		}
		eventually(t, "it is back", func() bool { return depthOf(t, ch, name) == 1 })
		var seen calls
		r := w.start(orders(seeing(&seen, works)), ofQueue(name).with(settings{"RABBITMQ_MAX_MESSAGE_SIZE": "80KiB"}))
		eventually(t, "it is handled", func() bool { return len(seen.all()) == 1 })
		if !bytes.Equal(seen.all()[0].m.Value, body) {
			t.Error("its value is another")
		}
		r.queuesEmpty()
		if left := depthOf(t, ch, name); left != 0 {
			t.Errorf("%d messages are in the queue still", left)
		}
	})
}

func TestTheLagOfAStreamThatConsumesAQueueIsTheDepthOfTheQueue(t *testing.T) {
	onQueues(t, func(t *testing.T, w *world, name string, ch *amqp.Channel) {
		const depth = 5
		r := w.start(orders(func(context.Context, *stepwell.Message) error { return nil }), ofQueue(name).with(settings{"TELEMETRY_DEPTH_INTERVAL": "100ms"}))
		r.ready()
		if status, answer := r.do("POST", "/v1/streams/orders/pause", ""); status != 200 {
			t.Fatalf("pause: %d %v", status, answer)
		}
		for range depth {
			put(t, ch, name, amqp.Publishing{Body: []byte("waits")})
		}
		shows := func(n int) func() bool {
			return func() bool {
				s := r.status("orders")
				return s["source"] == "queue" && s["lag"] == float64(n) && s["error"] == nil && r.metric(`stepwell_consumer_lag{stepwell_stream="orders"}`) == float64(n)
			}
		}
		eventually(t, "what waits is the lag", shows(depth))
		if status, answer := r.do("POST", "/v1/streams/orders/resume", ""); status != 200 {
			t.Fatalf("resume: %d %v", status, answer)
		}
		eventually(t, "nothing waits", shows(0))
	})
}

// incompressible is so much that no compression makes smaller.
func incompressible(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // it never fails
	return b
}

func TestEachMistakeOfAStreamThatConsumesAQueueIsNamed(t *testing.T) {
	app := func(s actor.Stream) actor.App {
		if s.Batch == nil {
			s.Handler = func(context.Context, *stepwell.Message) error { return nil }
		}
		return actor.App{Name: "shop", Streams: actor.Streams{"orders": s, "parcels": {Enqueued: true, Handler: func(context.Context, *stepwell.Message) error { return nil }}}}
	}
	for _, test := range []struct {
		name   string
		stream actor.Stream
		env    []string
		want   string // empty: it is none
	}{
		{"well", actor.Stream{}, nil, ""},
		{"shared settings of Kafka", actor.Stream{}, []string{"WINDOW_MESSAGES=5000", "ORDER=partition", "RETRY_IN_PLACE=2", "MAX_AGE=1h"}, ""},
		{"topics", actor.Stream{}, []string{"STREAMS_ORDERS_TOPICS=t"}, "STREAMS_ORDERS_TOPICS: is for streams that read Kafka: this one has what is in queue q"},
		{"order", actor.Stream{}, []string{"STREAMS_ORDERS_ORDER=key"}, "STREAMS_ORDERS_ORDER: is for streams that read Kafka"},
		{"age", actor.Stream{}, []string{"STREAMS_ORDERS_MAX_AGE=1h"}, "STREAMS_ORDERS_MAX_AGE: is for streams that read Kafka"},
		{"in place", actor.Stream{}, []string{"STREAMS_ORDERS_RETRY_IN_PLACE=2"}, "STREAMS_ORDERS_RETRY_IN_PLACE: is for streams that read Kafka"},
		{"no retries", actor.Stream{}, []string{"RETRY_ENABLED=false", "STREAMS_PARCELS_RETRY_ENABLED=true"}, "cannot be for a stream that has what is in queue q"},
		{"enqueued", actor.Stream{Enqueued: true}, nil, "is for streams that are not Enqueued"},
		{"a batch", actor.Stream{Batch: func(context.Context, *stepwell.Batch) error { return nil }}, []string{"BATCH_SIZE=250", "CONCURRENCY=4", "WINDOW_MESSAGES=10"}, ""},
		{"batches too large", actor.Stream{Batch: func(context.Context, *stepwell.Batch) error { return nil }}, []string{"BATCH_SIZE=251", "CONCURRENCY=4"}, `BATCH_SIZE: "251" times CONCURRENCY (4) is more than half of 2000`},
		{"batches that may take long", actor.Stream{Batch: func(context.Context, *stepwell.Batch) error { return nil }}, []string{"HANDLER_TIMEOUT=8m"}, `HANDLER_TIMEOUT: "8m" is above a sixth of RABBITMQ_CONSUMER_TIMEOUT (5m)`},
		{"bytes", actor.Stream{}, []string{"STREAMS_ORDERS_WINDOW_BYTES=1MiB"}, ""},
		{"one of ours", actor.Stream{}, []string{"STREAMS_ORDERS_QUEUE=shop.parcels.instant"}, "begins with shop."},
		{"too long", actor.Stream{}, []string{"STREAMS_ORDERS_QUEUE=" + strings.Repeat("q", 256)}, "is longer than 255 bytes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := actor.Load(app(test.stream), append([]string{"RABBITMQ_URL=amqp://localhost", "STREAMS_ORDERS_QUEUE=q"}, test.env...))
			switch {
			case test.want == "" && err != nil:
				t.Error(err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}
