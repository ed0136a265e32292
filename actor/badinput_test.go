package actor_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
)

func TestATopicThatIsMissingIsNamedAndReadOnceItIsThere(t *testing.T) {
	onOneRabbitMQ(t, func(t *testing.T, w *world) {
		var c calls
		late := w.app + ".late"
		r := w.start(orders(func(_ context.Context, m *stepwell.Message) error { c.add(m); return nil }),
			settings{"STREAMS_ORDERS_TOPICS": w.topic + "," + late})
		r.notReady("topic "+late+" does not exist", "STREAMS_ORDERS_TOPICS")
		w.produce(values("there")...)
		eventually(t, "the topic that is there is read", func() bool { return len(c.all()) == 1 })
		w.createTopic(late, 2)
		w.produce(&kgo.Record{Topic: late, Value: []byte("late")})
		eventually(t, "the late topic is read", func() bool { return len(c.all()) == 2 })
		r.ready()
	})
}

func TestAnUnreachableBrokerIsNamedWithItsSetting(t *testing.T) {
	tests := []struct {
		name string
		env  settings
		says []string
	}{
		{"kafka", settings{"KAFKA_BROKERS": "127.0.0.1:1"}, []string{"[+] rabbitmq", "KAFKA_BROKERS", "127.0.0.1:1"}},
		{"kafka's name", settings{"KAFKA_BROKERS": "nowhere.invalid:9092"}, []string{"[+] rabbitmq", "KAFKA_BROKERS", "nowhere.invalid"}},
		{"rabbitmq", settings{"RABBITMQ_URL": "amqp://u:hidden@127.0.0.1:1/"}, []string{"[-] rabbitmq", "RABBITMQ_URL", "127.0.0.1:1"}},
		{"no AMQP", settings{"RABBITMQ_URL": ""}, []string{"[-] rabbitmq", "RABBITMQ_URL"}},
	}
	t.Parallel()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			onOneRabbitMQ(t, func(t *testing.T, w *world) {
				if test.name == "no AMQP" { // Kafka's port
					test.env["RABBITMQ_URL"] = "amqp://u:hidden@" + w.seeds + "/"
				}
				app, b := logged(orders(func(context.Context, *stepwell.Message) error { return nil }))
				r := w.start(app, test.env)
				r.notReady(test.says...)
				if _, _, text := r.health(); strings.Contains(text+b.String(), "hidden") {
					t.Errorf("a password is shown:\n%s\n%s", text, b)
				}
				began := time.Now()
				r.end()
				if took := time.Since(began); took > 10*time.Second {
					t.Errorf("the stop took %v", took)
				}
			})
		})
	}
}

// junk is what nobody of ours would put into a queue.
func junk() map[string]amqp.Publishing {
	whole := func(words string) amqp.Publishing { // a message as ours, but for some words
		return amqp.Publishing{MessageId: "t:0:1", Headers: amqp.Table{"x-stepwell": "v2 at=t:0:1 stream=orders" + words}, Body: []byte("b")}
	}
	head := func(v any) amqp.Publishing {
		return amqp.Publishing{Headers: amqp.Table{"x-stepwell": v}, Body: []byte("b")}
	}
	return map[string]amqp.Publishing{
		"empty":                  {},
		"random bytes":           {Body: []byte{0, 0xff, 0xfe, '"', '\n', 0x80}},
		"JSON of others":         {ContentType: "application/json", Body: []byte(`{"count":1}`), Headers: amqp.Table{"retry": int32(3)}},
		"attempt is a text":      whole(" try=many"),
		"attempt is negative":    whole(" try=-1"),
		"head is a table":        head(amqp.Table{"try": int32(1)}),
		"head is a list":         head([]any{"v2", int64(1), []byte{0xff}}),
		"head is a float":        head(1.5),
		"head is a time":         head(time.Unix(1, 0)),
		"head is bytes":          head([]byte{0xff, 0, ' ', '='}),
		"version is none":        head("latest at=t:0:1"),
		"version is 0":           head("v0 at=t:0:1"),
		"a header before v2":     {MessageId: "t:0:1", Headers: amqp.Table{"x-stepwell-version": "1.0", "x-stepwell-topic": "t"}, Body: []byte("b")},
		"key is a list":          {Headers: amqp.Table{"x-stepwell": "v2 at=t:0:1", "sw-key": []any{"a", int64(1), []byte{0xff}}}, Body: []byte("b")},
		"unknown layout":         whole(" layout=knotted"),
		"framed, but is not":     whole(" layout=framed"),
		"compressed, but is not": whole(" encoding=gzip"),
		"x-death by hand":        {Headers: amqp.Table{"x-death": "once", "x-first-death-queue": int32(7)}, Body: []byte("x")},
		"x-death list by hand": {Headers: amqp.Table{"x-death": []any{amqp.Table{"queue": "q", "count": int64(1 << 60), "reason": "expired",
			"exchange": "", "routing-keys": []any{"q"}, "time": time.Unix(1, 0)}}}, Body: []byte("x")},
		"60 KiB header":  {Headers: amqp.Table{"big": strings.Repeat("x", 60<<10)}, Body: []byte("x")},
		"110 KiB header": {Headers: amqp.Table{"big": bytes.Repeat([]byte{0xff}, 110<<10)}, Body: []byte("x")},
		"many headers": {Headers: func() amqp.Table {
			h := amqp.Table{}
			for i := range 2000 {
				h[fmt.Sprintf("h%d", i)] = int32(i)
			}
			return h
		}()},
		"a time-to-live": {Expiration: "1", Body: []byte("x")},
		"long id":        {MessageId: strings.Repeat("i", 255), CorrelationId: strings.Repeat("c", 255), Body: []byte("x")},
		"id of nonsense": {MessageId: "\xff\x00\n", Body: []byte("x")},
	}
}

func TestJunkInAQueueCrashesNothingAndCanBePeekedReplayedAndDeleted(t *testing.T) {
	t.Parallel()
	onBrokers(t, func(t *testing.T, w *world) {
		y := newTally()
		r := w.start(orders(y.handler(failsOnce)), settings{"RETRY_COUNT": "1"})
		r.ready()
		w.produce(several("bad", 10)...)
		ch := w.channel()
		if err := ch.Confirm(false); err != nil {
			t.Fatal(err)
		}
		all, sent := junk(), 0
		for name, m := range all {
			for _, kind := range []string{"instant", "delay.100", "dead_set"} {
				if m.Expiration != "" && kind == "dead_set" {
					continue // it would be gone, as its sender wished
				}
				confirm, err := ch.PublishWithDeferredConfirm("", w.queue("orders", kind), true, false, m)
				if err != nil || !confirm.Wait() {
					t.Fatalf("%s into %s: %v", name, kind, err)
				}
				sent++
			}
		}
		w.produce(several("bad-later", 10)...)
		eventually(t, "the others are done", func() bool { _, done := y.count(); return done >= 20 })
		r.deadCount(sent)
		status, answer := r.do("POST", "/v1/dead_set/replay", fmt.Sprintf(`{"count":%d,"stream":"orders"}`, sent))
		if status != 200 || answer["done"] != float64(sent) {
			t.Fatalf("replay: %d %v", status, answer)
		}
		for _, m := range r.deadCount(sent) {
			if m["reason"] != stepwell.ReasonUndecodable || m["error"] == "" {
				t.Errorf("after its replay: reason %v, error %v, id %q", m["reason"], m["error"], m["id"])
			}
		}
		if status, answer := r.do("DELETE", "/v1/dead_set", `{"count":10,"stream":"orders"}`); status != 200 || answer["done"] != 10.0 {
			t.Fatalf("delete: %d %v", status, answer)
		}
		r.deadCount(sent - 10)
		if tried, done := y.count(); tried != 20 || done != 20 {
			t.Errorf("%d messages were tried and %d done, want 20", tried, done)
		}
	})
}

func TestAMessageOfANewerVersionGoesRoundUnchangedAndHoldsUpNobody(t *testing.T) {
	t.Parallel()
	onBrokers(t, func(t *testing.T, w *world) {
		y := newTally()
		app, b := logged(orders(y.handler(failsOnce)))
		r := w.start(app, nil)
		r.ready()
		ch := w.channel()
		m := amqp.Publishing{MessageId: "newer", Headers: amqp.Table{"x-stepwell": "v3 new", "x-other": "kept"}, Body: []byte("b")}
		if err := ch.Publish("", w.queue("orders", "instant"), true, false, m); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the log says so", func() bool { return b.said("WARN", "newer") })
		old := m
		old.Headers = amqp.Table{"x-stepwell": "v3 new", "sw-waits-since": time.Now().Add(-2 * time.Hour).Format(time.RFC3339)}
		if err := ch.Publish("", w.queue("orders", "instant"), true, false, old); err != nil {
			t.Fatal(err)
		}
		if dead := r.deadCount(1)[0]; dead["reason"] != stepwell.ReasonUndecodable || !strings.Contains(fmt.Sprint(dead["error"]), "newer version") {
			t.Errorf("the one that nobody could read for two hours died as %v", dead)
		}
		w.produce(several("bad", 5)...)
		eventually(t, "the others are done", func() bool { _, done := y.count(); return done == 5 })
		r.end()
		var got amqp.Delivery
		eventually(t, "the message is back", func() bool {
			d, ok, err := ch.Get(w.queue("orders", "instant"), true)
			if err != nil {
				t.Fatal(err)
			}
			got = d
			return ok
		})
		if got.MessageId != m.MessageId || string(got.Body) != "b" || got.Headers["x-stepwell"] != "v3 new" || got.Headers["x-other"] != "kept" {
			t.Errorf("it came back as %v %q %v", got.MessageId, got.Body, got.Headers)
		}
	})
}

func TestErrorsOfEveryKindReachTheDeadSetAsText(t *testing.T) {
	tests := map[string]error{
		"empty":        errors.New(""),
		"lines":        errors.New("one\ntwo\r\n\x00three"),
		"no UTF-8":     errors.New("\xff\xfe"),
		"huge":         errors.New(strings.Repeat("e", 1<<20)),
		"nil in a nil": stepwell.DeadLetter(nil),
	}
	onOneRabbitMQ(t, func(t *testing.T, w *world) {
		r := w.start(orders(func(_ context.Context, m *stepwell.Message) error { return tests[string(m.Value)] }), settings{"RETRY_COUNT": "1"})
		for name := range tests {
			w.produce(values(name)...)
		}
		for _, m := range r.deadCount(len(tests)) {
			if text, ok := m["error"].(string); !ok || len(text) > 1024 {
				t.Errorf("%v: error %.100q", m["value"], m["error"])
			}
		}
	})
}
