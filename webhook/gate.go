package webhook

import (
	"context"
	"math"
	"sync"
	"time"
)

// gates let calls through to their hosts: a few at once to each, and none to one that is down, but
// for one call now and then that looks whether it is back.
type gates struct {
	limit int
	// mu guards hosts and all that is in them.
	mu    sync.Mutex
	hosts map[string]*gate
}

// gate is one host. It is forgotten when there is nothing to remember of it, or when there are too
// many and no call is under way.
type gate struct {
	// room has a place for each call that may be under way.
	room    chan struct{}
	waiting int
	// took is how long a call takes, roughly: each counts for an eighth. moved is when one began or
	// ended last: a host that hangs has not told yet how slow it is.
	took  time.Duration
	moved time.Time
	// failures are those in a row of a host that is down; shut is how often the gate was shut since
	// it was last seen up, until when it is at most.
	failures int
	shut     int
	until    time.Time
	// down is since when it is shut.
	down time.Time
	// off is how many calls were put off lately, at the time offAt.
	off   float64
	offAt time.Time
}

const (
	// maxGates is how many hosts are remembered.
	maxGates = 10_000
	// tooMany failures in a row shut a gate.
	tooMany = 5
	// A gate stays shut for shortestShut, twice as long each further time, at most longestShut.
	shortestShut = 5 * time.Second
	longestShut  = time.Minute
	// shortWait is up to which expected time a call waits for its place in the process: most hosts
	// answer so fast that a way through a queue would cost more.
	shortWait = 100 * time.Millisecond
	// longestWait is when a call that waits so gives up.
	longestWait = 250 * time.Millisecond
	// returning is how many calls a second should come back to a host that is down, or slow, as far
	// as their snoozes can be that long.
	returning = 100
)

func newGates(limit int) *gates { return &gates{limit: limit, hosts: map[string]*gate{}} }

// pass is the right to make one call to a host. Whoever has one calls leave.
type pass struct {
	gates *gates
	gate  *gate
	host  string
	since time.Time
}

// outcome is what a call says of its host.
type outcome int

// Outcomes of a call.
const (
	up      outcome = iota + 1
	down            // no answer, or a gateway's
	unknown         // the call was broken off
)

// enter returns nil where the host has no room now, or is down; then least is how long the call
// should stay away at least. It waits where a place is to be had soon. again says that the call was
// put off before: one that finds the host up but full is spread once, and then comes as it would.
func (g *gates) enter(ctx context.Context, host string, again bool) (p *pass, least time.Duration) {
	g.mu.Lock()
	h := g.of(host)
	if now := time.Now(); !h.open(now) {
		least = h.putOff(now, returning)
		g.mu.Unlock()
		return nil, least
	}
	if p := g.room(ctx, host, h); p != nil || again {
		return p, 0
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	// Of a host that hangs this is all that is known, until the first of its calls is given up.
	return nil, h.putOff(time.Now(), h.speed())
}

// putOff counts a call that finds no place, and says how long it should stay away if so many come
// back in a second: so many calls are spread, or all of them would hop each second and be in
// everybody's way. The lock is held.
func (h *gate) putOff(now time.Time, perSecond float64) time.Duration {
	h.off = h.off*math.Exp(-now.Sub(h.offAt).Seconds()/longestSnooze.Seconds()) + 1
	h.offAt = now
	return time.Duration(h.off / perSecond * float64(time.Second))
}

// speed is how many calls a second should come back to a host that is up but full: those that it
// answers, where it is fast. The lock is held.
func (h *gate) speed() float64 {
	if h.took <= 0 {
		return returning
	}
	return max(returning, float64(cap(h.room))/h.took.Seconds())
}

// room takes a place, or waits for one; nil: there is none. The lock is held, and given back.
func (g *gates) room(ctx context.Context, host string, h *gate) *pass {
	p := &pass{gates: g, gate: h, host: host}
	now := time.Now()
	select {
	case h.room <- struct{}{}:
		p.since, h.moved = now, now
		g.mu.Unlock()
		return p
	default:
	}
	if now.Sub(h.moved) > shortWait || h.took*time.Duration(h.waiting+1)/time.Duration(g.limit) > shortWait {
		g.mu.Unlock()
		return nil
	}
	h.waiting++
	g.mu.Unlock()
	got := false
	select {
	case h.room <- struct{}{}:
		got = true
	case <-time.After(longestWait):
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	h.waiting--
	switch {
	case !got:
		g.forget(host, h)
		return nil
	case h.shut > 0: // it went down meanwhile, and who looks whether it is back does not come this way
		<-h.room
		g.forget(host, h)
		return nil
	}
	p.since = time.Now()
	h.moved = p.since
	return p
}

// of is the gate of a host. The lock is held.
func (g *gates) of(host string) *gate {
	if h := g.hosts[host]; h != nil {
		return h
	}
	if len(g.hosts) >= maxGates {
		for name, h := range g.hosts {
			if h.idle() {
				delete(g.hosts, name)
			}
		}
	}
	h := &gate{room: make(chan struct{}, g.limit)}
	g.hosts[host] = h
	return h
}

// idle says that no call is under way or waits.
func (h *gate) idle() bool { return len(h.room) == 0 && h.waiting == 0 }

// forget drops a gate that would be the same if it were made anew, but for how long calls take. The
// lock is held.
func (g *gates) forget(host string, h *gate) {
	if h.idle() && h.failures == 0 && h.took < shortWait/4 && g.hosts[host] == h {
		delete(g.hosts, host)
	}
}

// open says whether a call may be made now. Behind a gate that was shut one at a time looks whether
// the host is back. The lock is held.
func (h *gate) open(now time.Time) bool {
	return h.shut == 0 || !now.Before(h.until) && len(h.room) == 0
}

// leave gives the place back and says what the call met. A host whose answers say nothing of
// itself, as 404 or 500, is up. turned says that the host went down with it, or came back; then
// after is for how long it was down.
func (p *pass) leave(o outcome) (turned bool, after time.Duration) {
	g, h, now := p.gates, p.gate, time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	<-h.room
	h.moved = now
	if o != unknown {
		h.took += (now.Sub(p.since) - h.took) / 8
	}
	switch o {
	case up:
		if h.shut > 0 { // what came meanwhile is no measure of what the host cannot take
			h.off = 0
			turned, after = true, now.Sub(h.down)
		}
		h.failures, h.shut = 0, 0
	case down:
		// Those that were under way when the gate was shut do not keep it shut for longer.
		if h.failures++; h.failures >= tooMany && !now.Before(h.until) {
			if h.shut == 0 {
				turned, h.down = true, now
			}
			h.until = now.Add(min(shortestShut<<min(h.shut, 8), longestShut))
			h.shut++
		}
	case unknown:
	}
	g.forget(p.host, h)
	return turned, after
}
