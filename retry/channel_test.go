package retry_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/task"
	"github.com/stepwell/stepwell/retry"
)

// channel is a channel of the stream, in the same program.
func (w *world) channel(name string) *world {
	w.t.Helper()
	c := &world{t: w.t, broker: w.broker, cfg: w.cfg, counts: &counts{}}
	c.cfg.Channel, c.cfg.Telemetry = name, c.counts
	c.renew()
	if err := c.retrier.Declare(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	return c
}

func TestWhatARetryHandsOverHasTheTriesAndTheDeadSetOfTheChannel(t *testing.T) {
	for name, test := range map[string]struct{ first, want string }{
		"it was in no trace":                  {"", "00-try"},
		"it stays in the trace of its record": {"00-first", "00-first"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, retry.Linear(s, 0, 1), func(w *world) {
				slow := w.channel("slow")
				var died []retry.Death
				slow.cfg.Died = func(d retry.Death) { died = append(died, d) }
				slow.renew()
				var here, there calls
				r := w.start(func(_ context.Context, m *stepwell.Message, t retry.Ticket) task.Outcome {
					here.add(m)
					t.Hand(slow.retrier, "00-try", "a=b")
					return task.Pending
				})
				channel := slow.start(there.failing(retry.Failure{Err: errAway}))
				w.first(record("x"), retry.Failure{Err: errAway, TraceParent: test.first})
				time.Sleep(time.Minute)
				r.end()
				channel.end()
				w.empty()
				if !slices.Equal(here.attempts(), []int{2}) || !slices.Equal(there.attempts(), []int{1, 2}) {
					w.t.Fatalf("tries %v, then %v in the channel", here.attempts(), there.attempts())
				}
				if here, there := w.retrier.Topology().Instant, slow.retrier.Topology().Instant; here != "app.orders.instant" || there != "app.orders.channel.slow.instant" {
					t.Errorf("queues %s and %s", here, there)
				}
				if m := there.tries[0]; m.Stream != "orders" || m.Channel != "slow" || m.ID != record("x").ID+"@slow" || string(m.Value) != "x" {
					t.Errorf("handed over as %+v", m)
				}
				if w.counts.now().handed != 0 || slow.counts.now().handed != 1 || slow.counts.now().retried != 1 {
					t.Errorf("the stream counts %+v, the channel %+v", w.counts.now(), slow.counts.now())
				}
				e := slow.oneDead()
				if e.TraceParent != test.want || e.AttemptsTotal != 2 || len(died) != 1 || died[0].ID != e.Message.ID || died[0].Attempts != 2 {
					t.Errorf("dead in trace %q after %d tries, told as %+v", e.TraceParent, e.AttemptsTotal, died)
				}
			})
		})
	}
}

// A pause holds back what waits, and nothing that was handed out.
func TestAPausedRetrierCallsNothingUntilItResumes(t *testing.T) {
	inWorld(t, retry.Linear(s, 0, 1), func(w *world) {
		var c calls
		r := w.start(c.succeeding)
		w.retrier.Pause()
		w.first(record("x"), retry.Failure{Err: errAway})
		time.Sleep(time.Minute)
		synctest.Wait()
		if st := w.retrier.Status(); len(c.attempts()) != 0 || !st.Paused {
			t.Errorf("%d calls in a pause, status %+v", len(c.attempts()), st)
		}
		w.retrier.Resume()
		time.Sleep(s)
		synctest.Wait()
		if st := w.retrier.Status(); len(c.attempts()) != 1 || st.Paused {
			t.Errorf("%d calls after it, status %+v", len(c.attempts()), st)
		}
		r.end()
	})
}

// undeclared is a broker that declares nothing, or cannot say which queues there are.
type undeclared struct {
	queue.Broker
	declared   int
	err, blind error
}

func (u *undeclared) Depth(ctx context.Context, name string) (int, error) {
	if u.blind != nil {
		return 0, u.blind
	}
	return u.Broker.Depth(ctx, name)
}

func (u *undeclared) Declare(ctx context.Context, specs []queue.Spec) error {
	u.declared++
	if u.err != nil {
		return u.err
	}
	return u.Broker.Declare(ctx, specs)
}

func TestARetrierWhoseQueuesCannotBeDeclaredSaysSo(t *testing.T) {
	inWorld(t, retry.Linear(s, 0, 1), func(w *world) {
		broker := &undeclared{Broker: w.broker, err: errors.New("access refused")}
		w.cfg.Broker = broker
		w.renew()
		says := func(what string, err error) {
			t.Helper()
			if err == nil || !strings.Contains(err.Error(), "the queues of stream orders") || !errors.Is(err, broker.err) {
				t.Errorf("%s: %v", what, err)
			}
		}
		never := func(context.Context, *stepwell.Message, retry.Ticket) task.Outcome { panic("called") }
		says("Declare", w.retrier.Declare(w.t.Context()))
		says("Run", w.retrier.Run(w.t.Context(), w.t.Context(), never))
		says("Enqueue", w.retrier.Enqueue(w.t.Context(), record("x"), 0, "", ""))
		stopped, stop := context.WithCancel(w.t.Context())
		stop()
		if err := w.retrier.Run(stopped, w.t.Context(), never); err != nil {
			t.Errorf("a stop meanwhile: %v", err)
		}
		if broker.declared != 4 {
			t.Errorf("declared %d times, want once for each attempt", broker.declared)
		}
		broker.err, broker.blind = nil, errors.New("no broker answers")
		if err := w.retrier.Declare(w.t.Context()); !errors.Is(err, broker.blind) || !strings.Contains(err.Error(), "stream orders") {
			t.Errorf("where it cannot be seen which waits there are: %v", err)
		}
		broker.blind = nil
		err := w.retrier.Declare(w.t.Context())
		declared := broker.declared
		if err := errors.Join(err, w.retrier.Enqueue(w.t.Context(), record("x"), 0, "", "")); err != nil || broker.declared != declared {
			t.Errorf("once they are there: %v, declared %d times more", err, broker.declared-declared)
		}
	})
}

// Who enqueues may write into its message as soon as it is stored.
func TestAJobIsACopyUnderItsOwnIDOrOneThatNoOtherHas(t *testing.T) {
	inWorld(t, retry.Linear(s, 0, 1), func(w *world) {
		m := &stepwell.Message{ID: "job-1", Key: []byte("k"), Value: []byte("value"), Headers: []stepwell.Header{{Key: "h", Value: []byte("v")}}}
		none := &stepwell.Message{Value: []byte("none")}
		for _, m := range []*stepwell.Message{m, none, none} {
			if err := w.retrier.Enqueue(w.t.Context(), m, s, "", ""); err != nil {
				t.Error(err)
			}
		}
		copy(m.Key, "!")
		copy(m.Value, "!!!!!")
		copy(m.Headers[0].Value, "!")
		var c calls
		r := w.start(c.succeeding)
		time.Sleep(time.Minute)
		r.end()
		w.retrier.Close()
		if len(c.tries) != 3 {
			w.t.Fatalf("%d calls", len(c.tries))
		}
		slices.SortFunc(c.tries, func(a, b stepwell.Message) int { return cmp.Compare(len(a.ID), len(b.ID)) })
		if got := c.tries[0]; got.ID != "job-1" || string(got.Key) != "k" || string(got.Value) != "value" || string(got.Headers[0].Value) != "v" {
			t.Errorf("stored is %+v", got)
		}
		if one, other := c.tries[1].ID, c.tries[2].ID; one == "" || one == other {
			t.Errorf("ids %q and %q", one, other)
		}
	})
}

// What is under way when it is given up may be stored later: as it was given, whatever became of
// the message since.
func TestAJobThatIsGivenUpIsAnErrorOfWhy(t *testing.T) {
	for name, after := range map[string]time.Duration{"as it is stored": 0, "as the queue of its wait is declared": time.Hour} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, retry.Linear(s, 0, 1), func(w *world) {
				broker := &silent{Broker: w.broker}
				w.cfg.Broker = broker
				w.renew()
				if err := w.retrier.Declare(w.t.Context()); err != nil {
					w.t.Fatal(err)
				}
				broker.hangs = true
				errGone := errors.New("gone")
				ctx, cancel := context.WithTimeoutCause(w.t.Context(), s, errGone)
				defer cancel()
				m := record("value")
				if err := w.retrier.Enqueue(ctx, m, after, "", ""); !errors.Is(err, errGone) {
					t.Errorf("given up: %v", err)
				}
				copy(m.Value, "!!!!!")
				for _, m := range broker.published {
					if string(m.Body) != "value" {
						t.Errorf("published is %q", m.Body)
					}
				}
				if want := map[bool]int{true: 1}[after == 0]; len(broker.published) != want {
					t.Errorf("%d published, want %d", len(broker.published), want)
				}
				w.retrier.Close()
			})
		})
	}
}

// silent is a broker that never says what becomes of a publish, nor, once it hangs, of a
// declaration.
type silent struct {
	queue.Broker
	hangs     bool
	published []queue.Message
}

func (b *silent) Declare(ctx context.Context, specs []queue.Spec) error {
	if b.hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	return b.Broker.Declare(ctx, specs)
}

func (b *silent) Publisher(string) queue.Publisher { return b }

func (b *silent) Publish(_ context.Context, _ string, m queue.Message, _ func(error)) {
	b.published = append(b.published, m)
}

// What waited under a policy that the stream has no more comes from queues that nobody needs once
// they are empty: an operator is told of them, until they are gone.
func TestQueuesOfAFormerPolicyAreNamedUntilTheyAreGone(t *testing.T) {
	inWorld(t, retry.Linear(7*s, 0, 1), func(w *world) { // which no handler may ask for
		w.first(record("x"), retry.Failure{Err: errAway})
		former := w.retrier.Topology().Delays()[0]
		w.cfg.Delays = retry.Linear(s, 0, 1)
		w.renew()
		var c calls
		r := w.start(c.failing(retry.Failure{Err: errAway}))
		w.first(record("of today"), retry.Failure{Err: errAway})
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if got := w.retrier.Former(); len(c.attempts()) < 2 || !slices.Equal(got, []string{former}) {
			t.Errorf("after %d calls: %v, want %s", len(c.attempts()), got, former)
		}
		if w.retrier.Gone(w.retrier.Topology().Delays()[0]) || len(w.retrier.Former()) != 1 {
			t.Error("a queue of today is said to have been one")
		}
		if !w.retrier.Gone(former) || w.retrier.Gone(former) || len(w.retrier.Former()) != 0 {
			t.Errorf("left: %v", w.retrier.Former())
		}
		r.end()
	})
}

// Its pointer is dead, and waits for nobody.
func TestWhatIsTooLargeToWaitRestsInTheDeadSetWithoutItsWait(t *testing.T) {
	inWorld(t, retry.Linear(s, 0, 2), func(w *world) {
		w.refuses(longerThan(10))
		w.first(record(strings.Repeat("stepwell ", 1000)), retry.Failure{Err: errAway, After: 90 * time.Minute}) // in two hops
		all := w.dead()
		if len(all) != 1 {
			w.t.Fatalf("%d are dead", len(all))
		}
		e, err := envelope.Decode(all[0])
		if _, waits := envelope.WaitOf(all[0]); err != nil || !e.Pointer || waits || e.Message.Attempt != 1 {
			t.Errorf("dead at attempt %d, a pointer %t, waits %t, error %v", e.Message.Attempt, e.Pointer, waits, err)
		}
		w.retrier.Close()
	})
}
