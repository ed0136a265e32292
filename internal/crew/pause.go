package crew

import (
	"sync"
	"sync/atomic"
)

// pause holds back handing out, and whoever waits for its end.
type pause struct {
	on  atomic.Bool
	mu  sync.Mutex
	off chan struct{} // closed while there is none
}

func (p *pause) init() {
	p.off = make(chan struct{})
	close(p.off)
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
}

// Pause stops the handing out of messages. A call that runs is not disturbed.
func (c *Crew) Pause() { c.pause.set(true) }

// Resume ends a pause. Each feed then offers its roster.
func (c *Crew) Resume() { c.pause.set(false) }

// Paused says that nothing is handed out.
func (c *Crew) Paused() bool { return c.pause.on.Load() }

// AwaitResume waits for the end of a pause. It reports false when over is closed by then.
func (c *Crew) AwaitResume(over <-chan struct{}) bool {
	p := &c.pause
	for p.on.Load() {
		p.mu.Lock()
		off := p.off
		p.mu.Unlock()
		select {
		case <-over:
			return false
		case <-off:
		}
	}
	select {
	case <-over:
		return false
	default:
		return true
	}
}
