package rabbit

import (
	"context"
	"errors"
	"sync"
	"time"
)

// link keeps one connection: when a session ends, it makes the next, for ever. Run's goroutine is
// the only one that changes it.
type link struct {
	name    string
	config  *Config
	trouble *trouble

	mu sync.Mutex
	// session is nil while there is no connection.
	session *session
	// lost is when the session last came or went; zero before run.
	lost time.Time
	// changed is closed, and replaced, whenever session changes.
	changed chan struct{}
}

func newLink(name string, config *Config, trouble *trouble) *link {
	return &link{name: name, config: config, trouble: trouble, changed: make(chan struct{})}
}

// run connects again and again until ctx ends; its error is one that cannot heal (errTooOld). A
// wrong password is not: somebody may correct it at the broker.
func (l *link) run(ctx context.Context, targets []target) error {
	wait := l.config.backoff()
	// away counts from here on.
	l.set(nil)
	for ctx.Err() == nil {
		s, err := connect(ctx, targets, l.config.ConnectionName+" "+l.name)
		switch {
		case errors.Is(err, errTooOld):
			return err
		case err != nil && ctx.Err() == nil:
			l.trouble.set(l.name, err.Error())
		case err == nil:
			l.config.Logger.Info("connected to RabbitMQ", "connection", l.name, "product", s.release.String())
			l.trouble.releases.warn(l.config.Logger, s.release)
			// A broker that accepts a connection and drops it at once is not asked again without
			// waiting.
			if l.live(ctx, s) > 5*time.Second {
				wait.reset()
			}
		}
		sleep(ctx, wait.next())
	}
	return nil
}

// live offers the session to all who wait for one until it ends, and returns how long that took.
func (l *link) live(ctx context.Context, s *session) time.Duration {
	since := time.Now()
	l.trouble.clear(l.name)
	l.set(s)
	l.watch(ctx, s)
	// No caller may get the session any more before close, which can take some time.
	l.set(nil)
	s.close()
	return time.Since(since)
}

// underAlarm is what a person is told of an alarm.
const underAlarm = "RabbitMQ takes no messages: memory or disk alarm"

// watch tells of alarms, which hinder as an outage does, until the session ends and it tells of
// that, or until ctx ends.
func (l *link) watch(ctx context.Context, s *session) {
	for {
		select {
		case <-s.alarm:
			if s.blocked() {
				l.trouble.set(l.name, underAlarm)
			} else {
				l.trouble.clear(l.name)
			}
		case <-s.ctx.Done():
			l.trouble.set(l.name, context.Cause(s.ctx).Error())
			return
		case <-ctx.Done():
			return
		}
	}
}

// set makes s, which may be nil, the current session and wakes all who wait for a change.
func (l *link) set(s *session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.session, l.lost = s, time.Now()
	close(l.changed)
	l.changed = make(chan struct{})
}

// away is for how long there has been no session, 0 where there is one.
func (l *link) away() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.session != nil || l.lost.IsZero() {
		return 0
	}
	return time.Since(l.lost)
}

// current returns the session, or nil, and what is closed when that changes. Both are read under
// one lock: a session that comes in between would else be waited for in vain.
func (l *link) current() (*session, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// The session has ended, and live is about to take it away.
	if l.session != nil && !l.session.alive() {
		return nil, l.changed
	}
	return l.session, l.changed
}

// wait returns a session that is alive as far as anybody knows, or nil when a context ends first.
func (l *link) wait(ctx context.Context, over <-chan struct{}) *session {
	for {
		s, changed := l.current()
		if s != nil {
			return s
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		case <-over:
			return nil
		}
	}
}
