package actor

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/stepwell/stepwell/internal/inbox"
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
	warned := map[string]time.Time{} // when the call began that was warned of last, by line
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			for _, s := range a.streams {
				status, of := s.look()
				for _, l := range s.lines() {
					l.warnOfSlow(s.setting, status.Oldest, of.Call, warned)
					status.Oldest, of.Call = nil, inbox.Call{} // of the source, and of no channel
				}
			}
		}
	}
}

// warnOfSlow tells, once, of the call that has run for the longest if that is past HANDLER_TIMEOUT:
// its context has ended, and it goes on. Which record it has is not known where many run; the one
// that holds the window, if any does, is likely to be it. ofSource is what runs of a queue that is
// the source.
func (l *line) warnOfSlow(setting func(string) string, holds *server.Oldest, ofSource inbox.Call, warned map[string]time.Time) {
	since := l.dispatch.calls.Oldest()
	if since.IsZero() || time.Since(since) <= l.cfg.HandlerTimeout || since.Equal(warned[l.name()]) {
		return
	}
	warned[l.name()] = since
	attrs := []any{"since", since, "timeout", l.cfg.HandlerTimeout, "setting", setting("handler_timeout")}
	if c := calledAt(since, ofSource, l.retries.Status().Oldest); c.ID != "" {
		attrs = append(attrs, "id", c.ID, "attempt", c.Attempt)
	} else if holds != nil {
		attrs = append(attrs, "oldest", recordID(holds))
	}
	l.log.Warn("a handler runs past its time-out", attrs...)
}

// calledAt is the one of the calls that began then; zero: none did.
func calledAt(since time.Time, calls ...inbox.Call) (found inbox.Call) {
	for _, c := range calls {
		if c.Began.Sub(since).Abs() < time.Millisecond { // they are told by different clocks
			found = c
		}
	}
	return found
}

// hangs says of a call that it runs far past its time-out, and for how long; empty: none does.
// ofSource is what runs of a queue that is the source.
func (l *line) hangs(setting func(string) string, ofSource inbox.Call) string {
	since := l.dispatch.calls.Oldest()
	if since.IsZero() || time.Since(since) <= 2*l.cfg.HandlerTimeout {
		return ""
	}
	said := fmt.Sprintf("a call has run for %v, and %s is %v", time.Since(since).Round(time.Second), setting("handler_timeout"), l.cfg.HandlerTimeout)
	if c := calledAt(since, ofSource, l.retries.Status().Oldest); c.ID != "" {
		said += fmt.Sprintf(": that of message %s (attempt %d)", c.ID, c.Attempt)
	}
	return said
}
