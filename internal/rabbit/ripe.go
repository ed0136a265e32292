package rabbit

import (
	"slices"
	"time"

	"github.com/stepwell/stepwell/internal/queue"
)

// settleTime is how long a queue is left alone after it was created: a node that is killed forgets
// a quorum queue younger than about a second with all that was confirmed in it.
const settleTime = 2 * time.Second

// leave keeps publishers away from a queue that is about to be made, until it is settleTime old
// once then was called; and from one that this process has not known, since another may have made
// it a moment ago.
func (t *topology) leave(name string, missing bool) (then func()) {
	switch {
	case missing:
		// Before it exists, since a publisher may find it at once. The hour stands for "until it is
		// made", which the function replaces.
		t.hold(name, time.Hour)
		return func() { t.hold(name, settleTime) }
	case !t.knows(name):
		t.hold(name, settleTime)
	}
	return func() {}
}

// knows says whether the queue was declared, or proven, by this process before.
func (t *topology) knows(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.proven[name] || slices.ContainsFunc(t.specs, func(known queue.Spec) bool { return known.Name == name })
}

// hold keeps publishers away from a queue that is being created.
func (t *topology) hold(name string, howLong time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.until[name] = time.Now().Add(howLong)
	t.young.Store(int32(len(t.until)))
}

// used says that something came from the queue: who published that had left it alone for as long.
func (t *topology) used(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Until(t.until[name]) <= settleTime { // else it is being made anew
		delete(t.until, name)
		t.young.Store(int32(len(t.until)))
	}
}

// ripe tells whether the queue may be published to.
func (t *topology) ripe(name string) bool {
	if t.young.Load() == 0 {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	until, held := t.until[name]
	if held && time.Now().Before(until) {
		return false
	}
	delete(t.until, name)
	t.young.Store(int32(len(t.until)))
	return true
}

// youngs are the messages of a lane whose queues are too young, by queue.
type youngs map[string][]*outgoing

// waits keeps a message back whose queue is too young, and reports whether it did. What is
// published to a queue stays in order: as long as others wait for it, the next waits behind them.
func (y youngs) waits(o *outgoing, t *topology) bool {
	waiting := y[o.queue]
	if len(waiting) == 0 && t.ripe(o.queue) {
		return false
	}
	y[o.queue] = append(waiting, o)
	return true
}

// ripe ends what waits and has no context any more, and takes out what may be sent.
func (y youngs) ripe(t *topology) (all []*outgoing) {
	for name, waiting := range y {
		y[name] = slices.DeleteFunc(waiting, ended)
		if t.ripe(name) {
			all = append(all, y[name]...)
			delete(y, name)
		}
	}
	return all
}
