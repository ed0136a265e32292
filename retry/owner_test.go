package retry_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/embedded/memory"
	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/retry"
)

func TestARepeatOfASettledMessageIsNotCalledUnlessItsLogHasAnotherNumber(t *testing.T) {
	inWorld(t, retry.Linear(s, 0, 1), func(w *world) {
		var c calls
		r := w.start(c.succeeding)
		again := func(calls, duplicates int) {
			t.Helper()
			w.first(record("x"), retry.Failure{Err: errAway})
			time.Sleep(time.Minute)
			if got := len(c.attempts()); got != calls || w.counts.now().duplicates != duplicates {
				t.Errorf("%d calls, %d duplicates; want %d, %d", got, w.counts.now().duplicates, calls, duplicates)
			}
		}
		again(1, 0)
		again(1, 1)
		w.retrier.Number("orders.v1", 3, 7)
		again(2, 1)
		again(2, 2)
		r.end()
		w.empty()
	})
}

func TestWhatIsOfALogOfAnotherNumberIsRetriedByAProcessThatRemembersItsPosition(t *testing.T) {
	tests := []struct {
		name   string
		second string
		anew   bool
	}{
		{"the same record, wanted again", "x", true},
		{"another record of that time", "y", true},
		{"another record of that time, and nobody saw it", "y", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inWorld(t, retry.Linear(s, 0, 1), func(w *world) {
				owner := w.retrier // of the partition; the other one has all retries
				w.renew()
				var c calls
				r := w.start(c.succeeding)
				for _, value := range []string{"x", test.second} {
					m := record(value)
					m.Time = time.UnixMilli(1000)
					parked := make(chan error, 1)
					owner.Fail(w.t.Context(), m, nil, retry.Failure{Err: errAway}, func(err error) { parked <- err })
					if err := <-parked; err != nil {
						w.t.Fatal(err)
					}
					time.Sleep(time.Minute)
					if test.anew {
						owner.Number("orders.v1", 3, 8)
					}
				}
				r.end()
				if len(c.tries) != 2 || string(c.tries[1].Value) != test.second {
					t.Errorf("%d calls, want both", len(c.tries))
				}
				w.empty()
			})
		})
	}
}

func TestARepeatByTheNextOwnerOfALogIsNotRetriedTwiceByAProcessThatRemembersIt(t *testing.T) {
	inWorld(t, retry.Linear(s, 0, 1), func(w *world) {
		var c calls
		r := w.start(c.succeeding)
		for range 2 {
			w.renew() // an owner of the partition; another process has all retries
			w.retrier.Number("orders.v1", 3, 8)
			w.first(record("x"), retry.Failure{Err: errAway})
			time.Sleep(time.Minute)
		}
		r.end()
		if got := len(c.attempts()); got != 1 || w.counts.now().duplicates != 1 {
			t.Errorf("%d calls, %d duplicates", got, w.counts.now().duplicates)
		}
		w.empty()
	})
}

func TestJunkInTheInstantQueueEndsInTheDeadSetAsItIs(t *testing.T) {
	tests := []struct {
		name string
		m    queue.Message
		says string
	}{
		{"nothing", queue.Message{}, "x-stepwell"},
		{"bytes", queue.Message{ID: "junk", Body: []byte{0, 0xff, '\n'}}, "x-stepwell"},
		{"half an envelope", queue.Message{Headers: map[string]any{"x-stepwell": "v2 at=t:1:seven", "mine": "kept"}}, "at: "},
		{"one of a layout before the first release", queue.Message{Headers: map[string]any{"x-stepwell-version": "1.0", "x-stepwell-offset": int64(7), "mine": "kept"}}, "x-stepwell"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inWorld(t, retry.Linear(s, 0, 3), func(w *world) {
				var c calls
				r := w.start(c.succeeding)
				w.put(w.retrier.Topology().Instant, test.m)
				synctest.Wait()
				r.end()
				all := w.dead()
				if len(all) != 1 || len(c.tries) != 0 || w.counts.now().died[stepwell.ReasonUndecodable] != 1 {
					t.Fatalf("%d dead, %d calls, counted %v", len(all), len(c.tries), w.counts.now().died)
				}
				f := envelope.FailureOf(all[0])
				if f.Reason != stepwell.ReasonUndecodable || !strings.Contains(f.Error, test.says) || string(all[0].Body) != string(test.m.Body) ||
					all[0].ID != test.m.ID || all[0].Headers["mine"] != test.m.Headers["mine"] {
					t.Errorf("dead: %+v", all[0])
				}
				w.empty()
			})
		})
	}
}

func TestJunkWhoseHeadersTheBrokerRefusesIsBuriedWithoutThem(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		w.refuses(func(m queue.Message) bool { return m.Headers["odd"] != nil })
		r := w.start((&calls{}).succeeding)
		w.put(w.retrier.Topology().Instant, queue.Message{ID: "junk", Headers: map[string]any{"odd": "x"}, Body: []byte("b")})
		synctest.Wait()
		r.end()
		all := w.dead()
		if len(all) != 1 || string(all[0].Body) != "b" || envelope.FailureOf(all[0]).Reason != stepwell.ReasonUndecodable || w.counts.now().died[stepwell.ReasonUndecodable] != 1 {
			t.Errorf("dead: %+v", all)
		}
	})
}

// What explains why it is there has to go, and not what it is.
func TestANewerMessageJustBelowTheLimitIsBuriedAsItIs(t *testing.T) {
	const limit = 80 << 10
	for below, says := range map[int]struct{ reason, about string }{0: {}, 20: {}, 70: {stepwell.ReasonUndecodable, ""}, 300: {stepwell.ReasonUndecodable, "v3"}} {
		t.Run(fmt.Sprintf("%d bytes below", below), func(t *testing.T) {
			inWorld(t, retry.Linear(5*s, 0, 2), func(w *world) {
				w.broker.(*memory.Broker).MaxMessageSize = limit
				m := queue.Message{ID: "t:0:7", Headers: map[string]any{"x-stepwell": "v3 try=2/4 at=t:0:7", "sw-key": []byte("k")}}
				m.Body = make([]byte, limit-m.Size()-below)
				w.put(w.retrier.Topology().Instant, m)
				r := w.start(new(calls).succeeding)
				time.Sleep(2 * time.Hour)
				r.end()
				all := w.dead()
				if len(all) != 1 || w.counts.now().died[stepwell.ReasonUndecodable] != 1 {
					w.t.Fatalf("%d dead, counted %v", len(all), w.counts.now().died)
				}
				if f := envelope.FailureOf(all[0]); f.Reason != says.reason || !strings.Contains(f.Error, says.about) {
					w.t.Errorf("it says %+v, want %+v", f, says)
				}
				delete(all[0].Headers, "sw-buried")
				if !reflect.DeepEqual(all[0].Headers, m.Headers) || len(all[0].Body) != len(m.Body) {
					w.t.Errorf("%d bytes, headers %v", len(all[0].Body), all[0].Headers)
				}
			})
		})
	}
}

func TestAHandlerTimeoutTheBrokerWouldNotWaitForDoesNotStart(t *testing.T) {
	_, err := retry.New(retry.Config{App: "a", Stream: "orders", HandlerTimeout: 16 * time.Minute})
	if err == nil || !strings.Contains(err.Error(), "orders") {
		t.Errorf("error %v", err)
	}
}
