package retry_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/testbroker"
	"github.com/stepwell/stepwell/retry"
)

func TestExponentialWaitsGrowByTheFactorAndNeverBeyondTheLongest(t *testing.T) {
	const s = time.Second
	for _, test := range []struct {
		delay, longest time.Duration
		factor         float64
		count          int
		want           string
	}{
		{5 * s, time.Hour, 2, 4, "5s, 10s, 20s, 40s: 1m15s in all, then the dead set"},
		{s, 10 * s, 3, 5, "1s, 3s, 9s, 10s, 10s: 33s in all, then the dead set"},
		{time.Millisecond, s, 1.5, 3, "1ms, 2ms, 3ms: 6ms in all, then the dead set"}, // rounded up
		{s, s, 1, 5, "5 × 1s: 5s in all, then the dead set"},
		{s, time.Hour, 2, 0, "no retries: the first failure goes to the dead set"},
	} {
		if got := retry.Exponential(test.delay, test.factor, test.longest, test.count).String(); got != test.want {
			t.Errorf("%+v: %s", test, got)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		delay := time.Duration(rapid.Int64Range(1, 1<<32).Draw(t, "delay")) * time.Millisecond
		longest := max(delay, time.Duration(rapid.Int64Range(1, 1<<32).Draw(t, "longest"))*time.Millisecond)
		b := retry.Exponential(delay, rapid.Float64Range(1, 100).Draw(t, "factor"), longest, rapid.IntRange(0, 1000).Draw(t, "count"))
		if !slices.IsSorted(b) || len(b) > 0 && (b[0] != delay || slices.Max(b) > longest) {
			t.Fatalf("%s up to %s: %s", delay, longest, b)
		}
	})
}

func TestExponentialOf25And30And100AllEndInTheDeadSet(t *testing.T) {
	for _, count := range []int{25, 30, 100} {
		budget := retry.Exponential(5*time.Second, 2, time.Hour, count)
		inWorld(t, budget, func(w *world) {
			var c calls
			r := w.start(c.failing(retry.Failure{Err: errAway}))
			began := time.Now()
			w.first(record("v"), retry.Failure{Err: errAway})
			time.Sleep(budget.Total() + time.Minute)
			r.end()
			if e := w.oneDead(); e.AttemptsTotal != count+1 {
				t.Errorf("dead after %d tries, want %d", e.AttemptsTotal, count+1)
			}
			for i, at := range c.at {
				if due := began.Add(budget[:i+1].Total()); at.Before(due) || at.After(due.Add(time.Second)) {
					t.Errorf("retry %d came %s after it was due", i+1, at.Sub(due))
				}
			}
		})
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			t.Parallel()
			for _, node := range testbroker.Sample(t, testbroker.RabbitMQs(t)) {
				t.Run(node.Version, func(t *testing.T) {
					t.Parallel()
					w := onRabbit(t, node.URL, retry.Exponential(time.Millisecond, 1.5, 50*time.Millisecond, count))
					var c calls
					r := w.start(c.failing(retry.Failure{Err: errAway}))
					w.first(record("v"), retry.Failure{Err: errAway})
					eventually(t, "it is dead", func() bool {
						n, err := w.broker.Depth(t.Context(), w.retrier.Topology().DeadSet)
						return err == nil && n == 1
					})
					r.end()
					if len(c.tries) != count {
						t.Errorf("%d retries, want %d", len(c.tries), count)
					}
				})
			}
		})
	}
}

func TestAScheduleIsKeptToTheLetter(t *testing.T) {
	const s = time.Second
	inWorld(t, retry.Schedule([]time.Duration{s, 10 * s, 60 * s, s}), func(w *world) {
		var c calls
		r := w.start(c.failing(retry.Failure{Err: errAway}))
		began := time.Now()
		w.first(record("v"), retry.Failure{Err: errAway})
		time.Sleep(2 * time.Minute)
		r.end()
		w.oneDead()
		var came []time.Duration
		for _, at := range c.at {
			came = append(came, at.Sub(began).Round(s))
		}
		if want := []time.Duration{s, 11 * s, 71 * s, 72 * s}; !slices.Equal(came, want) {
			t.Errorf("tried after %v, want %v", came, want)
		}
	})
}

func TestWithJitterWhatFailsAtOnceComesBackSpreadAndNeverLate(t *testing.T) {
	const wait, jitter, n = 10 * time.Second, 0.3, 300
	spread := func(t *testing.T, c *calls, began time.Time) {
		var late []time.Duration
		for _, at := range c.at {
			late = append(late, at.Sub(began))
		}
		slices.Sort(late)
		if len(late) != n || late[0] < time.Duration((1-jitter)*float64(wait)) {
			t.Fatalf("%d came back, the first after %s", len(late), late[0])
		}
		p10, p90 := late[n/10], late[9*n/10]
		if p90-p10 < time.Duration(jitter/2*float64(wait)) {
			t.Errorf("p10 %s, p90 %s", p10, p90)
		}
	}
	inWorld(t, nil, func(w *world) {
		w.cfg.Delays, w.cfg.Jitter = retry.Linear(wait, 0, 3), jitter
		w.renew()
		if err := w.retrier.Declare(t.Context()); err != nil {
			t.Fatal(err)
		}
		var c calls
		r := w.start(c.succeeding)
		began := time.Now()
		fail(w, n)
		time.Sleep(2 * wait)
		r.end()
		w.empty()
		spread(t, &c, began)
		if last := c.at[len(c.at)-1].Sub(began); last > wait+time.Second {
			t.Errorf("the last came after %s", last)
		}
	})
	for _, node := range testbroker.Sample(t, testbroker.RabbitMQs(t)) {
		t.Run(node.Version, func(t *testing.T) {
			t.Parallel()
			waits := func(wait time.Duration) *world {
				w := onRabbit(t, node.URL, nil)
				w.cfg.Delays, w.cfg.Jitter = retry.Linear(wait, 0, 3), jitter
				w.renew()
				if err := w.retrier.Declare(t.Context()); err != nil {
					t.Fatal(err)
				}
				return w
			}
			// A busy machine may hold all up until they come at once, so not when they come but
			// where they wait is looked at, in queues of other times that none leaves.
			w := waits(time.Hour)
			fail(w, n)
			eventually(t, "all wait, in four queues or more", func() bool {
				all, used := 0, 0
				for _, q := range w.retrier.Topology().Delays() {
					depth := w.depth(q)
					if all += depth; depth >= n/10 {
						used++
					}
				}
				return all == n && used >= 4
			})
			w = waits(wait / 5)
			var c calls
			r := w.start(c.succeeding)
			began := time.Now()
			fail(w, n)
			eventually(t, "all came back", func() bool { return len(c.attempts()) == n })
			r.end()
			if early := slices.MinFunc(c.at, time.Time.Compare).Sub(began); early < time.Duration((1-jitter)*float64(wait/5)) {
				t.Errorf("the first came after %s", early)
			}
		})
	}
}

// fail parks the first tries of n records.
func fail(w *world, n int) {
	w.t.Helper()
	parked := make(chan error, n)
	for i := range n {
		m := record("v")
		m.ID, m.Origin.Offset, m.Key = fmt.Sprint("spread:0:", i), int64(i), []byte("one key")
		w.retrier.Fail(w.t.Context(), m, nil, retry.Failure{Err: errAway}, func(err error) { parked <- err })
	}
	for range n {
		if err := <-parked; err != nil {
			w.t.Fatal(err)
		}
	}
}

func TestWithJitterEachWaitHasQueuesOfDifferentLengths(t *testing.T) {
	for _, test := range []struct {
		width  int
		jitter float64
		want   []string
	}{
		{1, 0.3, []string{"925", "1000", "775", "850"}},
		{8, 0.5, []string{"1000", "938", "875", "813", "750", "688", "625", "563"}},
	} {
		top, err := retry.NewTopology("a", "b", retry.Linear(time.Second, 0, 3), test.width, test.jitter)
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for _, ms := range test.want {
			want = append(want, "a.b.delay."+ms)
		}
		got := top.Delays()
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("queues %q, want %q", got, want)
		}
		used := map[string]bool{}
		for range 1000 {
			name, ok := top.Delay(1, &stepwell.Message{Key: []byte("k")})
			if used[name] = true; !ok || !slices.Contains(got, name) {
				t.Fatalf("a message goes to %s", name)
			}
		}
		if len(used) != len(got) {
			t.Errorf("%d of %d queues are used", len(used), len(got))
		}
	}
	for _, jitter := range []float64{-0.1, 0.51} {
		if _, err := retry.NewTopology("a", "b", nil, 1, jitter); err == nil {
			t.Errorf("jitter %v", jitter)
		}
	}
}
