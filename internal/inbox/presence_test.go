package inbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
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

// No group shows that the processes live: their leases do.
func TestCutsAloneCondemnNobody(t *testing.T) {
	for _, node := range testbroker.RabbitMQs(t) {
		t.Run(node.Version, func(t *testing.T) {
			t.Parallel()
			const processes, limit, cuts = 3, 1, 5
			w := onRabbit(t, node.URL, time.Second)
			w.accused("slow", limit)
			var calls atomic.Int64
			done := make(chan struct{})
			var running sync.WaitGroup
			stop, cancel := context.WithCancel(context.Background())
			t.Cleanup(func() { cancel(); running.Wait() })
			for number := range processes {
				p, b := throughProxy(t, node.URL)
				cfg := w.cfg
				cfg.Broker, cfg.Publisher = b, b.Publisher("test")
				cfg.Suspects = inbox.Suspects{Limit: limit, Process: uint32(number + 1), Probation: 3 * time.Second}
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

// leasing is a broker that says how leases go.
type leasing struct {
	queue.Broker
	taken func() error
}

func (l *leasing) Lease(ctx context.Context, name string) (queue.Lease, error) {
	if err := l.taken(); err != nil {
		return nil, err
	}
	return l.Broker.Lease(ctx, name)
}

func TestWhoRunsASuspectShowsThatItLives(t *testing.T) {
	inWorld(t, s, func(w *world) {
		w.cfg.Suspects.Limit, w.cfg.Suspects.Process = 3, 7
		w.instant(1)
		w.renew()
		looks := func() error { // as another process would
			l, err := w.broker.Lease(w.t.Context(), "orders.process.00000007")
			if err == nil {
				l.Release()
			}
			return err
		}
		settles := func(context.Context, *stepwell.Message, inbox.Ticket) task.Outcome { return task.Settled }
		r := w.start(settles)
		time.Sleep(s)
		if err := looks(); err != nil {
			t.Errorf("where no suspect runs: %v", err)
		}
		r.end()
		w.returned("x")
		r = w.start(settles)
		time.Sleep(time.Minute)
		if err := looks(); !errors.Is(err, queue.ErrLeased) {
			t.Errorf("once a suspect has run: %v", err)
		}
		r.end()
		if err := looks(); err != nil {
			t.Errorf("after the run: %v", err)
		}
	})
}

// A trial that cannot see who lives waits; one that may not look goes on.
func TestATrialNeedsTheAnswerButNotTheRightToLook(t *testing.T) {
	const unseen, unshown = "until it can be seen which processes live", "no other process can see that this one lives"
	for name, c := range map[string]struct {
		err  error
		runs bool
		says string
	}{
		"away":     {fmt.Errorf("no connection: %w", queue.ErrUnavailable), false, unseen},
		"no right": {errors.New("ACCESS_REFUSED"), true, unshown},
		"it lives": {queue.ErrLeased, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, s, func(w *world) {
				var log bytes.Buffer
				w.cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
				w.cfg.Broker = &leasing{Broker: w.broker, taken: func() error { return c.err }}
				w.cfg.Suspects.Limit = 3
				w.renew()
				w.copied("x", "00000008")
				var told calls
				r := w.start(told.succeeding)
				time.Sleep(5 * time.Minute)
				r.end()
				if runs := len(told.attempts()) == 1; runs != c.runs {
					t.Errorf("it ran: %v", runs)
				}
				text := log.String()
				for _, phrase := range []string{unseen, unshown} {
					if strings.Contains(text, phrase) != (phrase == c.says) {
						t.Errorf("the log says %s", text)
					}
				}
				if strings.Count(text, unshown) > 1 {
					t.Errorf("told more than once: %s", text)
				}
			})
		})
	}
}
