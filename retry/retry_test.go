package retry_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/queue/queuetest"
	"github.com/stepwell/stepwell/internal/task"
	"github.com/stepwell/stepwell/retry"
)

const s = time.Second

func TestAMessageThatAlwaysFailsWaitsEachDelayAndThenRestsInTheDeadSet(t *testing.T) {
	tests := []struct {
		name   string
		delays retry.Budget
	}{
		{"constant", retry.Linear(5*s, 0, 5)},
		{"growing by a step", retry.Linear(5*s, 5*s, 3)},
		{"a day", retry.Linear(time.Hour, 0, 24)},
		{"a hundred", retry.Linear(s, 0, 100)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inWorld(t, test.delays, func(w *world) {
				var c calls
				r := w.start(c.failing(retry.Failure{Err: errAway}))
				began := time.Now()
				w.first(record("x"), retry.Failure{Err: errAway})
				time.Sleep(test.delays.Total() + 10*s)
				synctest.Wait()
				r.end()
				if n := len(test.delays); len(c.tries) != n {
					t.Fatalf("%d calls after the first, want %d", len(c.tries), n)
				}
				for i, at := range c.at {
					if wait := at.Sub(began); wait < test.delays[i] || wait > test.delays[i]+s || c.tries[i].Attempt != i+2 {
						t.Errorf("attempt %d after %v, want attempt %d after %v", c.tries[i].Attempt, wait, i+2, test.delays[i])
					}
					began = at
				}
				e := w.oneDead()
				if m := e.Message; m.Attempt != len(test.delays)+1 || e.AttemptsTotal != m.Attempt || e.Failure.Reason != stepwell.ReasonExhausted ||
					e.Failure.Error != errAway.Error() || e.Failure.ErrorType != "*errors.errorString" || e.DiedAt.IsZero() || m.FirstFailed.IsZero() {
					t.Errorf("dead: %+v", e)
				}
				if len(e.History) != min(envelope.MaxHistory, e.AttemptsTotal) || e.History[len(e.History)-1].Attempt != e.Message.Attempt {
					t.Errorf("history %+v", e.History)
				}
				if w.counts.now().retried != len(test.delays) || w.counts.now().died[stepwell.ReasonExhausted] != 1 {
					t.Errorf("counted %v and %v", w.counts.now().retried, w.counts.now().died)
				}
				w.empty()
			})
		})
	}
}

func TestAMessageThatSucceedsOnItsThirdTryLeavesNothingBehind(t *testing.T) {
	inWorld(t, retry.Linear(5*s, 0, 3), func(w *world) {
		var c calls
		r := w.start(func(_ context.Context, m *stepwell.Message, t retry.Ticket) task.Outcome {
			if c.add(m) < 2 {
				t.Fail(retry.Failure{Err: errAway})
				return task.Pending
			}
			return task.Settled
		})
		w.first(record("x"), retry.Failure{Err: errAway})
		time.Sleep(time.Minute)
		r.end()
		if got := c.attempts(); !slices.Equal(got, []int{2, 3}) {
			t.Errorf("attempts %v", got)
		}
		w.empty()
	})
}

func TestWhatSendsAMessageToTheDeadSetAtOnce(t *testing.T) {
	tests := []struct {
		name    string
		delays  retry.Budget
		failure retry.Failure
		reason  string
	}{
		{"no retries", nil, retry.Failure{Err: errAway}, stepwell.ReasonExhausted},
		{"the handler said so", retry.Linear(s, 0, 3), retry.Failure{Err: errAway, Reason: stepwell.ReasonDeadLetter}, stepwell.ReasonDeadLetter},
		{"it could not be decoded", retry.Linear(s, 0, 3), retry.Failure{Err: fmt.Errorf("decode: %w", errAway), ErrorType: "*errors.errorString", Reason: stepwell.ReasonDecode}, stepwell.ReasonDecode},
		{"without an error", retry.Linear(s, 0, 3), retry.Failure{Reason: stepwell.ReasonDeadLetter}, stepwell.ReasonDeadLetter},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inWorld(t, test.delays, func(w *world) {
				w.first(record("x"), test.failure)
				e := w.oneDead()
				if e.Failure.Reason != test.reason || e.Message.Attempt != 1 || w.counts.now().died[test.reason] != 1 {
					t.Errorf("dead: %+v, counted %v", e, w.counts.now().died)
				}
				if test.failure.Err != nil && e.Failure.ErrorType != "*errors.errorString" {
					t.Errorf("error type %s", e.Failure.ErrorType)
				}
			})
		})
	}
}

func TestADeadLetterOnALaterTryEndsTheTriesThatAreLeft(t *testing.T) {
	inWorld(t, retry.Linear(s, 0, 5), func(w *world) {
		var c calls
		r := w.start(c.failing(retry.Failure{Err: errors.New("no such card"), Reason: stepwell.ReasonDeadLetter, Stack: "main.go:1\n\tmain.go:2"}))
		w.first(record("x"), retry.Failure{Err: errAway})
		time.Sleep(time.Minute)
		r.end()
		e := w.oneDead()
		if e.Message.Attempt != 2 || e.Failure.Error != "no such card" || e.Failure.Stack != "main.go:1\n\tmain.go:2" || len(c.tries) != 1 {
			t.Errorf("after %d calls: %+v", len(c.tries), e)
		}
	})
}

// odd is a record that is easily changed on its way.
type odd struct {
	name       string
	key, value []byte
	headers    []stepwell.Header
}

func (o odd) message() *stepwell.Message {
	m := record("")
	m.Key, m.Value, m.Headers, m.Time = o.key, o.value, o.headers, time.UnixMilli(1234567890123)
	return m
}

func oddRecords() []odd {
	header := func(pairs ...any) (all []stepwell.Header) {
		for i := 0; i < len(pairs); i += 2 {
			v, _ := pairs[i+1].([]byte)
			all = append(all, stepwell.Header{Key: pairs[i].(string), Value: v})
		}
		return all
	}
	return []odd{
		{"nil key and value", nil, nil, nil},
		{"empty key and value", []byte{}, []byte{}, nil},
		{"binary", []byte{0, 0xff}, []byte{0xfe, 0, '"'}, header("\xff\x00name", []byte{0, 0xff})},
		{"repeated, nil and empty headers", nil, []byte("v"), header("a", []byte("1"), "a", nil, "a", []byte{}, "", nil)},
		{"a key that just fits", bytes.Repeat([]byte("k"), 62<<10), nil, nil},
		{"a key of 200 KiB", bytes.Repeat([]byte("k"), 200<<10), nil, nil},
		{"a MiB of headers", nil, []byte("v"), header("h", bytes.Repeat([]byte{0}, 1<<20), "h", nil)},
		{"three thousand headers", nil, []byte("v"), slices.Repeat(header("", nil), 3000)},
		{"five thousand headers", nil, []byte("v"), slices.Repeat(header("", nil), 5000)},
	}
}

func TestEveryByteOfARecordSurvivesThreeRetries(t *testing.T) {
	for _, test := range oddRecords() {
		t.Run(test.name, func(t *testing.T) {
			inWorld(t, retry.Linear(s, 0, 3), func(w *world) {
				m := test.message()
				var c calls
				r := w.start(c.failing(retry.Failure{Err: errAway}))
				w.first(m, retry.Failure{Err: errAway})
				time.Sleep(time.Minute)
				r.end()
				c.add(&w.oneDead().Message)
				if len(c.tries) != 4 {
					t.Fatalf("%d calls", len(c.tries))
				}
				for _, got := range c.tries {
					if !got.Time.Equal(m.Time) || !reflect.DeepEqual([]any{got.ID, got.Key, got.Value, got.Headers, got.Origin}, []any{m.ID, m.Key, m.Value, m.Headers, m.Origin}) {
						t.Errorf("attempt %d of %s changed", got.Attempt, got.ID)
					}
				}
			})
		})
	}
}

func TestWhatIsKnownOfAMessageStaysWithIt(t *testing.T) {
	inWorld(t, retry.Linear(s, 0, 3), func(w *world) {
		e := &envelope.Envelope{Message: *record("x"), AttemptsTotal: 4, TraceParent: "00-first", TraceState: "a=b", Extra: map[string]any{"tenant": "t"}}
		e.Message.Replays = 1
		var c calls
		r := w.start(func(_ context.Context, m *stepwell.Message, ticket retry.Ticket) task.Outcome {
			c.add(m)
			if parent, state := ticket.Trace(); parent != "00-first" || state != "a=b" {
				t.Errorf("trace %s %s", parent, state)
			}
			m.ID, m.Attempt, m.Replays, m.Value = "mine", 77, 77, nil // a message is the handler's own
			ticket.Fail(retry.Failure{Err: errAway, TraceParent: "00-later"})
			return task.Pending
		})
		w.put(w.retrier.Topology().Instant, e.Encode())
		time.Sleep(time.Minute)
		r.end()
		dead := w.oneDead()
		if m := dead.Message; m.ID != e.Message.ID || string(m.Value) != "x" || m.Attempt != 4 || m.Replays != 1 || dead.AttemptsTotal != 8 ||
			dead.TraceParent != "00-first" || dead.Extra["tenant"] != "t" {
			t.Errorf("dead: %+v", dead)
		}
	})
}

func TestAStoredMessageIsJudgedByTodaysDelays(t *testing.T) {
	inWorld(t, retry.Linear(10*s, 0, 5), func(w *world) {
		w.first(record("x"), retry.Failure{Err: errAway})
		w.cfg.Delays = retry.Linear(3*s, 0, 1)
		w.renew()
		var c calls
		r := w.start(c.failing(retry.Failure{Err: errAway}))
		time.Sleep(11 * s)
		synctest.Wait()
		r.end()
		if e := w.oneDead(); e.Message.Attempt != 2 || len(c.tries) != 1 {
			t.Errorf("after %d calls: %+v", len(c.tries), e)
		}
	})
}

// refuses makes the broker refuse some messages.
func (w *world) refuses(tooLarge func(queue.Message) bool) {
	w.cfg.Broker = queuetest.Tight{Broker: w.broker, TooLarge: tooLarge}
	w.renew()
}

func longerThan(limit int) func(queue.Message) bool {
	return func(m queue.Message) bool { return len(m.Body) > limit }
}

func TestAMessageTooLargeIsCompressedAndKeepsItsTries(t *testing.T) {
	inWorld(t, retry.Linear(s, 0, 2), func(w *world) {
		w.refuses(longerThan(1000))
		value := strings.Repeat("stepwell ", 1000)
		var c calls
		r := w.start(c.failing(retry.Failure{Err: errAway}))
		w.first(record(value), retry.Failure{Err: errAway})
		time.Sleep(time.Minute)
		r.end()
		if got := c.attempts(); !slices.Equal(got, []int{2, 3}) || string(c.tries[0].Value) != value {
			t.Errorf("attempts %v", got)
		}
		if e := w.oneDead(); e.Failure.Reason != stepwell.ReasonExhausted || string(e.Message.Value) != value {
			t.Errorf("dead of %s", e.Failure.Reason)
		}
	})
}

func TestWhatIsTooLargeEvenSoLeavesAPointerInTheDeadSet(t *testing.T) {
	inWorld(t, retry.Linear(s, 0, 2), func(w *world) {
		w.refuses(longerThan(10))
		var c calls
		r := w.start(c.succeeding)
		w.first(record(strings.Repeat("stepwell ", 1000)), retry.Failure{Err: errAway})
		e := w.oneDead()
		if !e.Pointer || e.Size != 9000 || e.Failure.Reason != stepwell.ReasonTooLarge || e.Failure.Error != errAway.Error() || e.Message.Attempt != 1 || e.Message.Origin.Offset != 42 {
			t.Errorf("dead: %+v", e)
		}
		w.put(w.retrier.Topology().Instant, e.Encode()) // as a replay would
		time.Sleep(s)
		r.end()
		if e := w.oneDead(); !e.Pointer || e.Size != 9000 || len(c.tries) != 0 {
			t.Errorf("after %d calls: %+v", len(c.tries), e)
		}
	})
}
