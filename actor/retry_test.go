package actor_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
	"github.com/stepwell/stepwell/codec/protobuf"
	"github.com/stepwell/stepwell/internal/queue"
)

var errFlaky = errors.New("the service is away")

// calls records what a handler saw.
type calls struct {
	mu   sync.Mutex
	seen []call
}

type call struct {
	at time.Time
	m  stepwell.Message
}

func (c *calls) add(m *stepwell.Message) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = append(c.seen, call{time.Now(), *m})
	return len(c.seen)
}

func (c *calls) all() []call {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]call(nil), c.seen...)
}

// orders is an app of one stream.
func orders(h stepwell.Handler) actor.App {
	return actor.App{Streams: actor.Streams{"orders": {Handler: h}}}
}

func failing(c *calls) stepwell.Handler {
	return func(_ context.Context, m *stepwell.Message) error { c.add(m); return errFlaky }
}

func TestAMessageThatAlwaysFailsIsTriedOncePlusCountTimesAndThenRestsInTheDeadSet(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		env    settings
		waits  []time.Duration
		asMany string
	}{
		{"constant", settings{"RETRY_COUNT": "5"}, []time.Duration{100, 100, 100, 100, 100}, ""},
		{"growing by a step", settings{"RETRY_COUNT": "5", "RETRY_STEP": "100ms"}, []time.Duration{100, 200, 300, 400, 500}, ""},
		{"exponential", settings{"RETRY_POLICY": "exponential", "RETRY_COUNT": "5", "RETRY_FACTOR": "3", "RETRY_MAX_DELAY": "1s"}, []time.Duration{100, 300, 900, 1000, 1000}, ""},
		{"a schedule", settings{"STREAMS_ORDERS_RETRY_POLICY": "schedule", "RETRY_SCHEDULE": "100ms, 50ms,200ms"}, []time.Duration{100, 50, 200}, ""},
		{"three by default", settings{}, []time.Duration{100, 100, 100}, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			everywhere(t, func(t *testing.T, w *world) {
				var c calls
				r := w.start(orders(failing(&c)), test.env)
				w.produce(values("x")...)
				dead := r.deadCount(1)
				seen := c.all()
				if len(seen) != len(test.waits)+1 {
					t.Fatalf("%d calls, want %d", len(seen), len(test.waits)+1)
				}
				for i, s := range seen {
					if s.m.Attempt != i+1 {
						t.Errorf("call %d saw attempt %d", i+1, s.m.Attempt)
					}
					if i > 0 {
						if got, want := s.at.Sub(seen[i-1].at), test.waits[i-1]*time.Millisecond; got < want {
							t.Errorf("wait %d took %v, less than %v", i, got, want)
						}
					}
				}
				if got := dead[0]["attempts"]; got != float64(len(seen)) {
					t.Errorf("attempts %v in the dead set, want %d", got, len(seen))
				}
				if dead[0]["reason"] != stepwell.ReasonExhausted || dead[0]["error"] != errFlaky.Error() {
					t.Errorf("dead message says %v: %v", dead[0]["reason"], dead[0]["error"])
				}
			})
		})
	}
}

func TestAMessageThatFailsTwiceIsCalledThriceAndLeavesNothingInAnyQueue(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		var c calls
		r := w.start(orders(func(_ context.Context, m *stepwell.Message) error {
			if c.add(m) <= 2 {
				return errFlaky
			}
			return nil
		}), nil)
		w.produce(values("x")...)
		eventually(t, "third call", func() bool { return len(c.all()) == 3 })
		r.queuesEmpty()
	})
}

func TestVerdictsLeadWhereTheySay(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		verdict func() error
		reason  string
		text    string
	}{
		{"a dead letter at once", func() error { return stepwell.DeadLetter(errors.New("no such card")) }, stepwell.ReasonDeadLetter, "no such card"},
		{"a dead letter wrapped by middleware", func() error {
			return errors.Join(errors.New("audit"), stepwell.DeadLetter(errors.New("no such card")))
		}, stepwell.ReasonDeadLetter, "no such card"},
		{"no retries: the first failure", func() error { return errFlaky }, stepwell.ReasonExhausted, errFlaky.Error()},
		{"a panic", func() error { panic("oh") }, stepwell.ReasonExhausted, "panic: oh"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			everywhere(t, func(t *testing.T, w *world) {
				var n atomic.Int64
				r := w.start(orders(func(context.Context, *stepwell.Message) error { n.Add(1); return test.verdict() }), settings{"RETRY_COUNT": "0"})
				w.produce(values("x")...)
				dead := r.deadCount(1)
				if dead[0]["reason"] != test.reason || !strings.Contains(dead[0]["error"].(string), test.text) || n.Load() != 1 {
					t.Errorf("after %d calls: %v", n.Load(), dead[0])
				}
			})
		})
	}
}

func TestADeadLetterEndsTheTriesAtWhicheverAttempt(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		var n atomic.Int64
		r := w.start(orders(func(_ context.Context, m *stepwell.Message) error {
			n.Add(1)
			if m.Attempt == 2 {
				return stepwell.DeadLetter(errors.New("no such card"))
			}
			return errFlaky
		}), settings{"RETRY_COUNT": "3"})
		w.produce(values("x")...)
		if dead := r.deadCount(1)[0]; n.Load() != 2 || dead["attempts"] != 2.0 || dead["reason"] != stepwell.ReasonDeadLetter || dead["error"] != "no such card" {
			t.Errorf("after %d calls: %v", n.Load(), dead)
		}
	})
}

func TestAPanicIsRetriedAndItsStackKept(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		var n atomic.Int64
		r := w.start(orders(func(context.Context, *stepwell.Message) error { n.Add(1); return deepDown() }), settings{"RETRY_COUNT": "2"})
		w.produce(values("x")...)
		dead := r.deadCount(1)[0]
		if n.Load() != 3 || dead["attempts"] != 3.0 || dead["reason"] != stepwell.ReasonExhausted || dead["error"] != "panic: oh" {
			t.Errorf("after %d calls: %v", n.Load(), dead)
		}
		if stack := w.oneStored("dead_set").Headers["sw-stack"]; !strings.Contains(fmt.Sprint(stack), "deepDown") {
			t.Errorf("the stack is %v", stack)
		}
	})
}

func deepDown() error { panic("oh") }

// oneStored is the oldest message of a queue of the stream, which keeps it.
func (w *world) oneStored(kind string) queue.Delivery {
	w.t.Helper()
	broker := w.broker()
	var lease queue.Lease
	eventually(w.t, "nobody else walks", func() bool {
		var err error
		if lease, err = broker.Lease(w.t.Context(), w.queue("orders", kind)); err != nil && !errors.Is(err, queue.ErrLeased) {
			w.t.Fatal(err)
		}
		return err == nil
	})
	defer lease.Release()
	window, err := lease.Window(w.t.Context(), 1, 1<<20)
	if err != nil {
		w.t.Fatal(err)
	}
	all, err := queue.Gather(w.t.Context(), window)
	if err != nil || len(all) != 1 {
		w.t.Fatalf("%d messages: %v", len(all), err)
	}
	if _, err := window.Close(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	return all[0]
}

func TestAnErrorAfterTheHandlersTimeIsUpIsAFailure(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		var c calls
		r := w.start(orders(func(ctx context.Context, m *stepwell.Message) error {
			c.add(m)
			<-ctx.Done()
			return ctx.Err()
		}), settings{"RETRY_COUNT": "1", "HANDLER_TIMEOUT": "200ms"})
		w.produce(values("x")...)
		if dead := r.deadCount(1)[0]; dead["attempts"] != 2.0 || dead["reason"] != stepwell.ReasonExhausted || dead["error"] != context.DeadlineExceeded.Error() {
			t.Errorf("after %d calls: %v", len(c.all()), dead)
		}
	})
}

func TestASkippedMessageIsGoneAndCounted(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		r := w.start(orders(func(context.Context, *stepwell.Message) error { return stepwell.Skip("a test order") }), nil)
		w.produce(values("x")...)
		eventually(t, "skip in the metrics", func() bool {
			_, answer := r.do("GET", "/metrics", "")
			return strings.Contains(answer["text"].(string), `skipped`)
		})
		r.queuesEmpty()
	})
}

func TestEveryByteOfARecordSurvivesThreeRetriesAndAReplay(t *testing.T) {
	big := bytes.Repeat([]byte("k"), 200<<10)
	huge := bytes.Repeat([]byte{0, 0xff, '\n'}, (1<<20)/3)
	records := []*kgo.Record{
		{Key: nil, Value: nil},
		{Key: []byte{}, Value: []byte{}},
		{Key: []byte{0, 1, 0xff}, Value: []byte{0xfe, 0, '"'}},
		{Key: []byte("repeated"), Value: []byte("v"), Headers: []kgo.RecordHeader{
			{Key: "a", Value: []byte("1")}, {Key: "a", Value: nil}, {Key: "a", Value: []byte{}}, {Key: "\xff\x00name", Value: []byte{0, 0xff}},
		}},
		{Key: big, Value: []byte("big key")},
		{Key: []byte("h"), Value: []byte("1 MiB of headers"), Headers: []kgo.RecordHeader{{Key: "huge", Value: huge}}},
	}
	everywhere(t, func(t *testing.T, w *world) {
		var c calls
		r := w.start(orders(failing(&c)), nil)
		var sent []*kgo.Record
		for _, rec := range records {
			sent = append(sent, &kgo.Record{Partition: 0, Key: rec.Key, Value: rec.Value, Headers: rec.Headers})
		}
		w.produce(sent...)
		r.deadCount(len(sent))
		if status, answer := r.do("POST", "/v1/dead_set/replay", `{"count":6,"stream":"orders"}`); status != 200 || answer["done"] != 6.0 {
			t.Fatalf("replay: %d %v", status, answer)
		}
		eventually(t, "all calls", func() bool { return len(c.all()) == 8*len(sent) })
		type position struct {
			partition int32
			offset    int64
		}
		want := map[position]*kgo.Record{}
		for _, rec := range sent {
			want[position{rec.Partition, rec.Offset}] = rec
		}
		for _, s := range c.all() {
			rec := want[position{s.m.Origin.Partition, s.m.Origin.Offset}]
			if diff := differs(rec, &s.m); diff != "" {
				t.Errorf("attempt %d of %s after %d replays: %s", s.m.Attempt, s.m.ID, s.m.Replays, diff)
			}
		}
	})
}

// differs tells in which part the message is not the record.
func differs(r *kgo.Record, m *stepwell.Message) string {
	same := func(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }
	switch {
	case r == nil:
		return "unknown origin"
	case !same(r.Key, m.Key):
		return "key"
	case !same(r.Value, m.Value):
		return "value"
	case len(r.Headers) != len(m.Headers):
		return "number of headers"
	case !r.Timestamp.Equal(m.Time):
		return "time"
	}
	for i, h := range r.Headers {
		if h.Key != m.Headers[i].Key || !same(h.Value, m.Headers[i].Value) {
			return "header " + h.Key
		}
	}
	return ""
}

type order struct{ ID string }

func TestATombstoneReachesAJSONHandlerAndWhatIsNotJSONDiesAtOnce(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		var tombstones atomic.Int64
		r := w.start(orders(stepwell.JSON(func(_ context.Context, o order, m *stepwell.Message) error {
			if m.Value == nil && o == (order{}) {
				tombstones.Add(1)
			}
			return nil
		})), nil)
		w.produce(&kgo.Record{Key: []byte("a")}, &kgo.Record{Key: []byte("b"), Value: []byte("{nonsense")})
		dead := r.deadCount(1)
		if dead[0]["reason"] != stepwell.ReasonDecode || dead[0]["attempts"] != 1.0 || dead[0]["value"] != "{nonsense" {
			t.Errorf("dead: %v", dead[0])
		}
		eventually(t, "tombstone handled", func() bool { return tombstones.Load() == 1 })
	})
}

func TestWhatIsNoProtocolBufferDiesAtOnceAndKeepsItsBytes(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		var handled atomic.Int64
		r := w.start(orders(protobuf.Handler(func(_ context.Context, v *wrapperspb.StringValue, _ *stepwell.Message) error {
			if v.GetValue() == "fine" {
				handled.Add(1)
			}
			return nil
		})), nil)
		fine, err := proto.Marshal(wrapperspb.String("fine"))
		if err != nil {
			t.Fatal(err)
		}
		w.produce(&kgo.Record{Value: fine}, &kgo.Record{Value: []byte("no such message")})
		if dead := r.deadCount(1)[0]; dead["reason"] != stepwell.ReasonDecode || dead["attempts"] != 1.0 || dead["value"] != "no such message" {
			t.Errorf("dead: %v", dead)
		}
		eventually(t, "the other one is handled", func() bool { return handled.Load() == 1 })
	})
}

func TestAChangedDelayLeavesOldMessagesOnTheirWay(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		var c calls
		first := w.start(orders(failing(&c)), settings{"RETRY_DELAY": "2s"})
		w.produce(values("x")...)
		eventually(t, "message waits", func() bool { return first.depths()[w.queue("orders", "delay.2000")] == 1 })
		first.end()
		app, log := logged(orders(failing(&c)))
		second := w.start(app, settings{"RETRY_DELAY": "300ms"})
		second.deadCount(1)
		if !log.said("WARN", "a delay that the stream had before", w.queue("orders", "delay.2000")) {
			t.Errorf("the log does not name the queue:\n%s", log)
		}
		if depth, shown := second.depths()[w.queue("orders", "delay.2000")]; !shown || depth != 0 {
			t.Errorf("/v1/streams shows %v", second.depths())
		}
		w.deleteQueue(w.queue("orders", "delay.2000"))
		eventually(t, "what is deleted is no longer shown", func() bool {
			_, shown := second.depths()[w.queue("orders", "delay.2000")]
			return !shown && second.status("orders")["error"] == nil
		})
		if n := len(c.all()); n != 4 {
			t.Errorf("%d calls, want 4", n)
		}
	})
}

func TestMessagesWaitInAllQueuesOfADelay(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		const n = 30
		var c calls
		r := w.start(orders(failing(&c)), settings{"RETRY_DELAY": "1h", "RETRY_DELAY_QUEUES": "3"})
		w.produce(several("key", n)...)
		eventually(t, "all wait, some in each queue", func() bool {
			waiting := 0
			for _, name := range []string{"delay.3600000", "delay.3600000.2", "delay.3600000.3"} {
				depth := r.depths()[w.queue("orders", name)]
				if depth == 0 {
					return false
				}
				waiting += depth
			}
			return waiting == n
		})
	})
}

func TestWithoutRetriesAFailingMessageIsTriedInPlaceAndNeverDropped(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		var c calls
		r := w.start(orders(func(_ context.Context, m *stepwell.Message) error {
			if c.add(m) < 4 {
				return errFlaky
			}
			return nil
		}), settings{"RETRY_ENABLED": "false", "RABBITMQ_URL": "", "RETRY_DELAY": "20ms"})
		w.produce(values("x")...)
		eventually(t, "fourth call", func() bool { return len(c.all()) == 4 })
		if status, _ := r.do("GET", "/v1/dead_set?count=1&stream=orders", ""); status != 404 {
			t.Errorf("dead set of a stream without retries: %d, want 404", status)
		}
	})
}

func TestOnFailureDropDropsAndCounts(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		var c calls
		r := w.start(orders(failing(&c)), settings{"RETRY_ENABLED": "false", "RABBITMQ_URL": "", "ON_FAILURE": "drop"})
		w.produce(values("x", "y")...)
		eventually(t, "both dropped", func() bool {
			_, answer := r.do("GET", "/metrics", "")
			return len(c.all()) == 2 && strings.Contains(answer["text"].(string), "dropped")
		})
	})
}
