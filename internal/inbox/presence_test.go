package inbox_test

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/chaos/proxy"
	"github.com/stepwell/stepwell/internal/inbox"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/rabbit"
	"github.com/stepwell/stepwell/internal/task"
	"github.com/stepwell/stepwell/internal/testbroker"
)

// Three processes hand a message round, each of which is cut off while it runs. The broker shows
// that they live.
func TestCutsAloneCondemnNobody(t *testing.T) {
	for _, node := range testbroker.RabbitMQs(t) {
		t.Run(node.Version, func(t *testing.T) {
			t.Parallel()
			const processes, limit, cuts = 3, 1, 4
			w := onRabbit(t, node.URL, time.Second)
			w.accused("slow", limit) // so that one more is too many
			var calls atomic.Int64
			done := make(chan struct{})
			var running sync.WaitGroup
			stop, cancel := context.WithCancel(context.Background())
			t.Cleanup(func() { cancel(); running.Wait() })
			for number := range processes {
				p, b := throughProxy(t, node.URL)
				cfg := w.cfg
				cfg.Broker, cfg.Presence, cfg.Publisher = b, b, b.Publisher("test")
				cfg.Suspects = inbox.Suspects{Wait: w.cfg.Wait, Limit: limit, Process: uint32(number + 1), Probation: 3 * time.Second}
				in := inbox.New(cfg)
				running.Go(func() {
					err := in.Run(stop, context.Background(), func(context.Context, *stepwell.Message, inbox.Ticket) task.Outcome {
						if calls.Add(1) > cuts {
							close(done)
							return task.Settled
						}
						p.Cut()
						return task.Abandoned // nothing is settled on a connection that is gone
					})
					if err != nil {
						t.Error(err)
					}
				})
			}
			select {
			case <-done:
			case <-time.After(2 * time.Minute):
				t.Errorf("%d calls, %d in the dead set", calls.Load(), len(w.dead()))
			}
			cancel()
			running.Wait()
			w.empty()
		})
	}
}

// throughProxy is a broker whose connections the proxy can cut.
func throughProxy(t *testing.T, to string) (*proxy.Proxy, *rabbit.Broker) {
	t.Helper()
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	p, err := proxy.New(u.Host)
	if err != nil {
		t.Fatal(err)
	}
	b := rabbit.New(rabbit.Config{URLs: []string{strings.Replace(to, u.Host, p.Addr(), 1)}})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ended, p.Close()); err != nil {
			t.Error(err)
		}
	})
	return p, b
}

// showing is a broker that notes what is shown, and what is published meanwhile.
type showing struct {
	queue.Broker
	queue.Publisher
	mu    sync.Mutex
	notes []string
}

func (b *showing) note(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.notes = append(b.notes, what)
}

func (b *showing) Show(name string) { b.note(name) }

func (b *showing) Publish(ctx context.Context, to string, m queue.Message, done func(error)) {
	if by := m.Headers["x-stepwell-suspect-by"]; by != "" {
		b.note("runs in " + by.(string))
	}
	b.Publisher.Publish(ctx, to, m, done)
}

// Were it the other way round, who is cut off at once could not be told from one who died.
func TestWhoRunsASuspectIsShownFirst(t *testing.T) {
	inWorld(t, s, func(w *world) {
		w.cfg.Suspects.Limit, w.cfg.Suspects.Process = 3, 7
		w.renew()
		b := &showing{Broker: w.broker, Publisher: w.cfg.Publisher}
		w.cfg.Broker, w.cfg.Presence, w.cfg.Publisher = b, b, b
		w.inbox = inbox.New(w.cfg)
		var c calls
		w.instant(1)
		r := w.start(c.succeeding)
		time.Sleep(s)
		if len(b.notes) != 0 {
			t.Errorf("where no suspect runs: %q", b.notes)
		}
		w.copied("x", "")
		time.Sleep(s)
		r.end()
		if want := []string{"orders.process.00000007", "runs in 00000007"}; !slices.Equal(b.notes, want) || len(c.tries) != 2 {
			t.Errorf("%q, after %d calls", b.notes, len(c.tries))
		}
	})
}

// A trial looks twice, at its end and a little before: who is cut off at one of these moments is
// seen at the other.
func TestWhoIsSeenOnceInATrialLives(t *testing.T) {
	const probation = 40 * s
	for name, c := range map[string]struct {
		seen      []time.Duration // since the start
		died      string
		condemned bool
	}{
		"at the first look":      {[]time.Duration{probation - 5*s}, "00000007", false},
		"at the last look":       {[]time.Duration{probation}, "00000007", false},
		"at none":                {nil, "00000007", true},
		"before both":            {[]time.Duration{probation - 6*s, probation / 2}, "00000007", true},
		"it is this one":         {nil, "00000009", false},
		"it died for certain":    {[]time.Duration{probation}, "00000007!", true},
		"it has no name of ours": {[]time.Duration{probation}, "7", true},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, s, func(w *world) {
				w.cfg.Suspects = inbox.Suspects{Wait: w.cfg.Wait, Limit: 1, Process: 9, Probation: probation}
				began := time.Now()
				w.sees(func(_ context.Context, name string) (bool, error) {
					if name != "orders.process.00000007" {
						t.Errorf("asks for %q", name)
					}
					return slices.Contains(c.seen, time.Since(began)), nil
				})
				w.renew()
				w.copied("x", strings.Repeat(c.died+",", 2))
				var told calls
				r := w.start(told.succeeding)
				time.Sleep(s)
				if st := w.inbox.Status(); st.Suspect != "x" || !st.TriedUntil.Equal(began.Add(probation)) {
					t.Errorf("on trial the status is %+v", st)
				}
				time.Sleep(5 * time.Minute)
				r.end()
				if condemned := len(told.attempts()) == 0; condemned != c.condemned || len(w.dead()) == 1 != condemned {
					t.Errorf("condemned: %v", condemned)
				}
			})
		})
	}
}
