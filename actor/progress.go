package actor

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/stepwell/stepwell/server"
)

const (
	// stuckAfter is how long a stream may have lag and make no progress before it is called stuck.
	stuckAfter = 5 * time.Minute
	// progressInterval is how often it is looked at. One who asks looks too.
	progressInterval = 15 * time.Second
)

// progress knows since when a stream has something to do and gets nothing done.
type progress struct {
	mu    sync.Mutex
	since time.Time // zero: it has nothing to do, or is paused
}

// idleFor looks at a stream and returns for how long there has been work, seen by it or those
// before it, without progress. work says that something waits for it, in its window or not yet
// there.
func (p *progress) idleFor(status server.Status, work bool, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case status.Paused || !work:
		p.since = time.Time{}
		return 0
	case p.since.IsZero():
		p.since = now
	case status.LastProgress.After(p.since):
		p.since = status.LastProgress
	}
	return now.Sub(p.since)
}

// watchProgress looks at all streams now and then, until ctx ends.
func (a *Actor) watchProgress(ctx context.Context) {
	tick := time.NewTicker(progressInterval)
	defer tick.Stop()
	warned := map[string]time.Time{} // when the call began that was warned of last, by stream
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			for _, s := range a.streams {
				s.warnOfSlow(s.now(), warned)
			}
		}
	}
}

// warnOfSlow tells, once, of the call that has run for the longest if that is past HANDLER_TIMEOUT:
// its context has ended, and it goes on. Which message it has is not known where many run; the one
// that holds the window is likely to be it.
func (s *stream) warnOfSlow(status server.Status, warned map[string]time.Time) {
	since := s.dispatch.calls.Oldest()
	if since.IsZero() || time.Since(since) <= s.cfg.HandlerTimeout || since.Equal(warned[s.id]) {
		return
	}
	warned[s.id] = since
	attrs := []any{"since", since, "timeout", s.cfg.HandlerTimeout, "setting", s.setting("handler_timeout")}
	if o := status.Oldest; o != nil {
		attrs = append(attrs, "oldest", fmt.Sprintf("%s/%d/%d", o.Topic, o.Partition, o.Offset))
	}
	s.log.Warn("a handler runs past its time-out", attrs...)
}
