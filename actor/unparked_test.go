package actor_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
	"github.com/stepwell/stepwell/embedded/memory"
)

func TestAFailureThatCannotBeParkedIsLoggedShownKeptAndHoldsNoStop(t *testing.T) {
	t.Parallel()
	w := embeddedWorld(t)
	queues := w.brokers.Queues().(*memory.Broker)
	queues.MaxMessageSize = 50 // nothing of ours fits
	var c calls
	app, b := logged(orders(failing(&c)))
	r := w.start(app, nil)
	w.produce(values("x")...)
	eventually(t, "the log says so", func() bool {
		return b.said("ERROR", "cannot be parked", "larger than the broker takes", `"stream":"orders"`)
	})
	r.ready()
	if _, _, text := r.health(); !strings.Contains(text, "1 messages cannot be parked") {
		t.Errorf("readyz says %s", text)
	}
	_, answer := r.do("GET", "/v1/streams", "")
	if s := answer["streams"].([]any)[0].(map[string]any); !strings.Contains(fmt.Sprint(s["error"]), "cannot be parked") {
		t.Errorf("the API says %v", s)
	}
	began := time.Now()
	r.end()
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the stop took %v", took)
	}
	if n := w.committed(); n != 0 {
		t.Errorf("committed %d", n)
	}
	queues.MaxMessageSize = 0
	again := w.start(orders(failing(&c)), settings{"RETRY_COUNT": "0"})
	again.deadCount(1)
	if seen := c.all(); len(seen) != 2 || seen[1].m.Attempt != 1 {
		t.Errorf("%d calls: the message was to be tried anew", len(seen))
	}
}

func TestARetryThatCannotBeParkedHoldsNoStop(t *testing.T) {
	t.Parallel()
	w := embeddedWorld(t)
	queues := w.brokers.Queues().(*memory.Broker)
	var c calls
	app, b := logged(orders(func(_ context.Context, m *stepwell.Message) error {
		queues.MaxMessageSize = 50 * (c.add(m) - 1)
		return errFlaky
	}))
	r := w.start(app, nil)
	w.produce(values("x")...)
	eventually(t, "the log says so", func() bool {
		return b.said("ERROR", "cannot be parked", "larger than the broker takes", "stays where it is")
	})
	began := time.Now()
	r.end()
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the stop took %v", took)
	}
	eventually(t, "the message is back in its queue", func() bool {
		n, err := queues.Depth(t.Context(), w.queue("orders", "instant"))
		return n == 1 && err == nil
	})
}

// No other try would help, and its queue may bear few returns.
func TestAMessageOfAQueueThatIsTooLargeToBeParkedIsHeldUntilAStopByABatchAsByAHandler(t *testing.T) {
	t.Parallel()
	fails := func(m *stepwell.Message) error {
		if len(m.Value) > 1 {
			return errFlaky
		}
		return nil
	}
	for name, app := range map[string]actor.App{
		"a handler": orders(func(_ context.Context, m *stepwell.Message) error { return fails(m) }),
		"a batch": batched(func(_ context.Context, b *stepwell.Batch) error {
			for _, m := range b.Messages() {
				if err := fails(m); err != nil {
					b.Fail(m, err)
				}
			}
			return nil
		}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := embeddedWorld(t)
			queues := w.brokers.Queues().(*memory.Broker)
			if err := w.brokers.Publish(t.Context(), "payments", stepwell.Message{Value: incompressible(200 << 10)}, stepwell.Message{Value: []byte("x")}); err != nil {
				t.Fatal(err)
			}
			queues.MaxMessageSize = 80 << 10
			app, b := logged(app)
			r := w.start(app, ofQueue("payments").with(settings{"BATCH_WAIT": "10ms"}))
			eventually(t, "the log says so", func() bool {
				return b.said("ERROR", "a message is too large to be parked and is held until a stop", "larger than the broker takes", `"queue":"payments"`, `"setting":"RABBITMQ_MAX_MESSAGE_SIZE"`)
			})
			eventually(t, "the other is done", func() bool { return r.status("orders")["in_flight"] == 1.0 })
			if _, _, text := r.health(); !strings.Contains(text, "1 messages are too large to be parked and are held until a stop") {
				t.Errorf("readyz says %s", text)
			}
			began := time.Now()
			r.end()
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("the stop took %v", took)
			}
			if n, err := ready(t.Context(), queues, "payments"); n != 1 || err != nil {
				t.Errorf("%d messages are in the queue, %v; want the one that is too large", n, err)
			}
		})
	}
}

func TestTheSmallestAllowedMessageSizeHasRoomForWhatStaysOfAnyMessage(t *testing.T) {
	t.Parallel()
	w := embeddedWorld(t)
	const smallest = 72 << 10 // a smaller one is refused: see package config
	w.brokers.Queues().(*memory.Broker).MaxMessageSize = smallest
	r := w.start(orders(func(context.Context, *stepwell.Message) error {
		return stepwell.DeadLetter(errors.New(strings.Repeat("e", 5000)))
	}), nil)
	for _, size := range []int{40 << 10, 63 << 10, 64 << 10, 100 << 10} {
		w.produce(&kgo.Record{Key: noise(size), Value: noise(300 << 10), Headers: []kgo.RecordHeader{{Key: "h", Value: bytes.Repeat([]byte("h"), 1000)}}})
	}
	for _, m := range r.deadCount(4) {
		if m["reason"] != stepwell.ReasonTooLarge {
			t.Errorf("reason %v", m["reason"])
		}
	}
}
