package actor

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/stepwell/stepwell/server"
)

// drain knows since when a retired stream looked empty at each look.
type drain struct {
	mu sync.Mutex
	// since is when it first looked empty; zero: it did not, or nobody could tell, at the last
	// look.
	since time.Time
	// told: the log says already that it may go.
	told bool
}

// quiet is how long a retired stream must look empty before it may leave the code: what another
// process has under way, or the broker has not moved on yet (three minutes, where a target was
// missing), is in no queue's depth.
const quiet = 5 * time.Minute

// drainPause is how far apart looks at a retired stream are at most, however rarely metrics want
// depths: one look would else stand for all of the time in which it must look empty.
const drainPause = 15 * time.Second

// note enters a look. One look that finds something, or fails, begins the time anew.
func (d *drain) note(empty bool, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case !empty:
		d.since, d.told = time.Time{}, false
	case d.since.IsZero():
		d.since = now
	}
}

// state says since when it looked empty, and whether it may go.
func (d *drain) state(now time.Time, after time.Duration) (since time.Time, mayGo bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.since, !d.since.IsZero() && now.Sub(d.since) >= after
}

// goes is for who tells that it may go, once.
func (d *drain) goes() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	first := !d.told
	d.told = true
	return first
}

// retiredStream is the key of a retired stream in the context under which its handlers run. It
// tells them from all others who enqueue: what follows from its work is worked off, too.
type retiredStream struct{}

// handlersOf makes the context under which the stream's handlers run of that of all work.
func handlersOf(work context.Context, s *stream) context.Context {
	if !s.cfg.Retired {
		return work
	}
	return context.WithValue(work, retiredStream{}, s)
}

// drainsFor is how long the stream must look empty. What another process has fetched ahead is in no
// queue's depth: it waits for a worker, then its call takes its time, and OnDead as long again.
func (s *stream) drainsFor() time.Duration {
	after := quiet
	for _, l := range s.lines() {
		after = max(after, s.ahead+2*l.cfg.HandlerTimeout)
	}
	return after
}

// lookDepths asks for the depths of all queues of the stream, and says whether all answered. What a
// retired one looks like is noted.
func (s *stream) lookDepths(ctx context.Context) (all map[string]int, known bool) {
	all, known, empty := s.allDepths(ctx)
	if !s.cfg.Retired {
		return all, known
	}
	if empty && known { // as far as queues are known here: the handlers elsewhere may put messages off
		known = s.findRungs(ctx)
		found, answered, none := s.allDepths(ctx)
		all, known, empty = found, known && answered, none
	}
	s.drain.note(empty && known, time.Now())
	if since, mayGo := s.drain.state(time.Now(), s.drainsFor()); mayGo && s.drain.goes() {
		s.log.Info("a retired stream is empty: it may leave the code", "since", since)
	}
	return all, known
}

// findRungs says whether it could look for queues of free waits of all lines.
func (s *stream) findRungs(ctx context.Context) bool {
	const limit = 5 * time.Second
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for _, l := range s.lines() {
		if l.retries.FindRungs(ctx) != nil {
			return false
		}
	}
	return true
}

// allDepths are those of all queues that are known; empty says that there is no message in any, nor
// under way here.
func (s *stream) allDepths(ctx context.Context) (all map[string]int, known, empty bool) {
	all, known, empty = map[string]int{}, true, true
	for _, l := range s.lines() {
		found, err := l.depthsNow(ctx)
		maps.Copy(all, found)
		known = known && err == nil
		empty = empty && l.retries.Status().InFlight == 0
	}
	for _, depth := range all {
		empty = empty && depth == 0
	}
	return all, known, empty
}

// holds says that there are messages in a queue of the stream, by its status.
func holds(of *server.Status) bool {
	ready := 0
	for _, depth := range of.Queues {
		ready += depth
	}
	for _, c := range of.Channels {
		for _, depth := range c.Queues {
			ready += depth
		}
	}
	return ready > 0
}
