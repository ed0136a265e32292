package inbox

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/stepwell/stepwell/internal/queue"
)

// presenceEvery is how long a process that nobody can see to live waits until it tries again.
const presenceEvery = time.Second

// presence lets others see that this process lives, by a lease of a name: a connection that was cut
// while a suspect ran looks like a death to them. It is shown from the first suspect on that this
// process runs, and again whenever its connection ended, until the run is over.
type presence struct {
	broker Consumer
	queue  string
	log    *slog.Logger
	first  sync.Once
	life   context.Context
	end    context.CancelFunc
	shown  sync.WaitGroup
}

func newPresence(in *Inbox) *presence {
	p := &presence{broker: in.cfg.Broker, queue: in.cfg.Queue, log: in.cfg.Logger}
	p.life, p.end = context.WithCancel(context.Background())
	return p
}

// leaseOf is the name whose lease shows that the process lives.
func leaseOf(queue, process string) string { return queue + ".process." + process }

// show begins to show the process, and does not wait.
func (p *presence) show(process string) {
	p.first.Do(func() { p.shown.Go(func() { p.hold(leaseOf(p.queue, process)) }) })
}

// hold holds the lease until the presence is over.
func (p *presence) hold(name string) {
	told := false
	for p.life.Err() == nil {
		lease, err := p.broker.Lease(p.life, name)
		switch {
		case err == nil:
			select {
			case <-lease.Ended():
			case <-p.life.Done():
			}
			lease.Release()
		case notNow(err), told, p.life.Err() != nil:
		default:
			told = true
			p.log.Warn("no other process can see that this one lives: should its connection be cut while a suspected message runs, that counts as a death",
				"lease", name, "error", err)
		}
		select {
		case <-time.After(presenceEvery):
		case <-p.life.Done():
		}
	}
}

// over ends it.
func (p *presence) over() {
	p.end()
	p.shown.Wait()
}

// notNow says that a lease could not be had now: the broker is away, or somebody looks whether it
// is held.
func notNow(err error) bool {
	return errors.Is(err, queue.ErrLeased) || errors.Is(err, queue.ErrUnavailable) || errors.Is(err, queue.ErrClosed)
}

// shows says whether the process of that name lives, as far as it lets others see it. Who has no
// right to look sees nobody.
func (s *suspects) shows(ctx context.Context, process string) (bool, error) {
	lease, err := s.in.cfg.Broker.Lease(ctx, leaseOf(s.in.cfg.Queue, process))
	switch {
	case err == nil:
		lease.Release()
		return false, nil
	case errors.Is(err, queue.ErrLeased):
		return true, nil
	case notNow(err):
		return false, err
	}
	return false, nil
}

// dead returns those of the processes that died. Who is a member of the group lives, and who shows
// that it does.
func (s *suspects) dead(ctx context.Context, died []string) ([]string, error) {
	living, err := s.cfg.Living(ctx)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, name := range died {
		if _, looked := seen[name]; looked {
			continue
		}
		if seen[name] = name == s.name || lives(living, name); seen[name] {
			continue
		}
		if seen[name], err = s.shows(ctx, name); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(died, func(name string) bool { return seen[name] }), nil
}
