package actor

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/stepwell/stepwell/server"
)

// begins declares the queues, and has a pause of the whole app hold the stream back before anything
// is read; known waits until it is known which there are. It reports false when stop ended.
func (s *stream) begins(stop context.Context, known func(context.Context)) bool {
	if !s.declareAll(stop) {
		return false
	}
	s.waitsFor("what all processes share, to know whether it is paused in the whole app")
	known(stop)
	s.trouble.Store(nil)
	return stop.Err() == nil
}

// Pause holds the stream's source, retries and channels back on this instance. Where it is held
// back here already it stays who did that and when.
func (s *stream) Pause(by string) {
	s.hold(server.ScopeInstance, func(old *server.Pause) *server.Pause {
		if old != nil {
			return old
		}
		return &server.Pause{Scope: server.ScopeInstance, By: by, Since: time.Now().UTC().Truncate(time.Second)}
	})
}

// Resume ends such a pause. One of the whole app stays.
func (s *stream) Resume() {
	s.hold(server.ScopeInstance, func(*server.Pause) *server.Pause { return nil })
}

// holdForApp has the stream be held back for the whole app; nil: let go.
func (s *stream) holdForApp(now *server.Pause) {
	var was *server.Pause
	s.hold(server.ScopeApp, func(old *server.Pause) *server.Pause {
		was = old
		return now
	})
	switch {
	case now != nil && was == nil:
		s.log.Info("paused in all processes of the app", slog.String("by", now.By), slog.Time("since", now.Since))
	case now == nil && was != nil:
		s.log.Info("resumed in all processes of the app", slog.String("paused_by", was.By), slog.Time("paused_since", was.Since))
	}
}

// Pauses are all that hold the stream back.
func (s *stream) Pauses() []server.Pause {
	if all := s.pauses.Load(); all != nil {
		return *all
	}
	return nil
}

// hold replaces the pause of a scope by what change makes of it; nil: there is none. The stream is
// held back while there is one of any scope.
func (s *stream) hold(scope string, change func(old *server.Pause) *server.Pause) {
	s.pausing.Lock()
	defer s.pausing.Unlock()
	all := slices.Clone(s.Pauses())
	held := len(all) > 0
	var old *server.Pause
	if i := slices.IndexFunc(all, func(p server.Pause) bool { return p.Scope == scope }); i >= 0 {
		old = &server.Pause{}
		*old = all[i]
		all = slices.Delete(all, i, i+1)
	}
	if now := change(old); now != nil {
		all = append(all, *now)
	}
	s.pauses.Store(&all)
	switch {
	case !held && len(all) > 0:
		s.source.Pause()
		for _, l := range s.lines() {
			l.retries.Pause()
		}
	case held && len(all) == 0:
		s.source.Resume()
		for _, l := range s.lines() {
			l.retries.Resume()
		}
	}
}
