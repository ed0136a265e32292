package streams

import (
	"context"
	"sync"
	"sync/atomic"
)

// pause holds back polling and handing out, not the group.
type pause struct {
	on   atomic.Bool
	mu   sync.Mutex
	cond *sync.Cond
	off  chan struct{} // closed while not paused
}

func newPause() *pause {
	p := &pause{off: make(chan struct{})}
	close(p.off)
	p.cond = sync.NewCond(&p.mu)
	return p
}

func (p *pause) set(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.on.Load() == on {
		return
	}
	p.on.Store(on)
	if on {
		p.off = make(chan struct{})
	} else {
		close(p.off)
	}
	p.cond.Broadcast()
}

// wait returns when not paused, or reports false when stopped is set and nudge called.
func (p *pause) wait(stopped *atomic.Bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.on.Load() && !stopped.Load() {
		p.cond.Wait()
	}
	return !stopped.Load()
}

// nudge makes those in wait look at their flag.
func (p *pause) nudge() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cond.Broadcast()
}

// await reports whether ctx still lives when the pause is over.
func (p *pause) await(ctx context.Context) bool {
	for p.on.Load() {
		p.mu.Lock()
		off := p.off
		p.mu.Unlock()
		select {
		case <-ctx.Done():
			return false
		case <-off:
		}
	}
	return ctx.Err() == nil
}
