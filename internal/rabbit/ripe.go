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

// knows says whether the queue was declared by this process before.
func (t *topology) knows(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.ContainsFunc(t.specs, func(known queue.Spec) bool { return known.Name == name })
}

// hold keeps publishers away from a queue that is being created.
func (t *topology) hold(name string, howLong time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.until[name] = time.Now().Add(howLong)
	t.young.Store(int32(len(t.until)))
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
