package actor

import (
	"maps"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/crew"
	"github.com/stepwell/stepwell/internal/task"
)

// item is a message that waits for its batch.
type item struct {
	message *stepwell.Message
	of      task.Gatherable
	offset  int64
	// came is when it was put into the lane, since the lane was made.
	came time.Duration
	// alone: it is suspected of killing the process, and gets a batch of its own.
	alone bool
	// fetched is what the lane's was when it came.
	fetched uint32
}

// isOurs says that the message is still wanted: where it is not, another process has it, or will.
func (i item) isOurs() bool { return i.of.Calls().Err() == nil }

// lane is where messages wait for a batch. Those of one lane are called in the order in which they
// came, one batch after another, unless several goroutines take from it.
type lane struct {
	// began is when the lane was made. Times since then take a third of the memory of whole ones.
	began time.Time
	// size is how many messages make a batch full; wait is how long the first of them waits at
	// most.
	size int
	wait time.Duration
	// changed is readable when somebody who waits is to look again.
	changed chan struct{}

	// mu guards the fields below.
	mu    sync.Mutex
	items []item
	// head is the index of the first of items that waits; those before it were taken.
	head int
	// callers is how many goroutines take from the lane. Of these idle wait for a batch to be due,
	// standing wait for a seat since one is due, and the batches of resting rest.
	callers, idle, standing, resting int
	// flush: what waits is due, full or not.
	flush bool
	// alone is how many suspects wait. A suspect has the turn for which all others in the process
	// wait, so what is before it is due, too.
	alone int
	// fetched is how much was fetched, in eighths of WINDOW_BYTES; it starts anew after the last
	// number.
	fetched uint32
	// look: there may be messages of a partition that was halted, which are not to wait.
	look   bool
	paused bool
	// left has the origins of which a message was left to the next owner: what comes after it from
	// there, also by a worker that is in the middle of its stretch, is the next owner's too.
	left map[task.Gatherable]bool
}

func newLane(size int, wait time.Duration, callers int) *lane {
	return &lane{began: time.Now(), size: size, wait: wait, callers: callers, changed: make(chan struct{}, 1), left: map[task.Gatherable]bool{}}
}

// waiting is what waits.
func (l *lane) waiting() []item { return l.items[l.head:] }

// signal has one look who waits.
func (l *lane) signal() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// put adds messages that came at that time, behind all others. A suspect, which comes alone, goes
// before those of other partitions: while it waits no other suspect runs.
func (l *lane) put(of task.Gatherable, came time.Time, alone bool, messages ...crew.Entry) {
	l.mu.Lock()
	before := len(l.waiting())
	if len(l.items)+len(messages) > cap(l.items) {
		l.compact() // the memory of what was taken, before it asks for more
	}
	i := item{of: of, came: came.Sub(l.began), alone: alone, fetched: l.fetched}
	for _, e := range messages {
		i.message, i.offset = e.Message, e.Offset
		l.items = append(l.items, i)
	}
	if alone {
		l.alone++
		at := len(l.items) - 1
		for ; at > l.head && l.items[at-1].of != of; at-- {
			l.items[at] = l.items[at-1]
		}
		l.items[at] = i
	}
	is := len(l.waiting())
	l.mu.Unlock()
	if before == 0 || before < l.size && is >= l.size || alone {
		l.signal()
	}
	if of.Halted() {
		l.hurry() // it came after all were told
	}
}

// late is how much is fetched while a message waits until it gets memory of its own, in eighths of
// WINDOW_BYTES. Where all are called in turn, few wait for as long.
const late = 3

// own gives what has waited for long memory of its own, once: it would keep alive all that was
// fetched with it. fetched is the lane's from here on.
func (l *lane) own(fetched uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.fetched
	l.fetched = fetched
	waiting := l.waiting()
	for i := range waiting {
		if came := waiting[i].fetched; before-came < late && fetched-came >= late {
			waiting[i].message = waiting[i].message.Clone()
		}
	}
}

// hurry has what waits be called without waiting for more, unless a batch is under way: what comes
// after that one is not held up. What was halted does not wait at all.
func (l *lane) hurry() {
	l.mu.Lock()
	l.look = true
	l.flush = l.flush || l.idle > 0
	l.mu.Unlock()
	l.signal()
}

// setPaused begins or ends a pause: nothing is called meanwhile.
func (l *lane) setPaused(paused bool) {
	l.mu.Lock()
	l.paused = paused
	l.mu.Unlock()
	l.signal()
}

// await waits until a batch is due, and calls rest before, if it has to wait. It reports false when
// over is closed.
func (l *lane) await(over <-chan struct{}, rest func()) bool {
	if l.isDue() {
		return true
	}
	rest()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.idle++
	defer func() { l.idle-- }()
	for {
		wait, due := l.due()
		if due {
			return true
		}
		timer.Reset(wait)
		l.mu.Unlock()
		ended := false
		select {
		case <-l.changed:
		case <-timer.C:
		case <-over:
			ended = true
		}
		l.mu.Lock()
		if ended {
			return false
		}
	}
}

func (l *lane) isDue() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, due := l.due()
	return due
}

// due says whether a batch is due, or in how long that is to be looked at again.
func (l *lane) due() (wait time.Duration, is bool) {
	waiting := l.waiting()
	if l.look {
		for _, i := range waiting {
			if i.of.Halted() {
				return 0, true
			}
		}
		l.look = false
	}
	switch {
	case len(waiting) == 0 || l.paused:
		return time.Hour, false // somebody signals before
	case l.flush || len(waiting) >= l.size || l.alone > 0:
		return 0, true
	}
	wait = l.wait - (time.Since(l.began) - waiting[0].came)
	return wait, wait <= 0
}

// take returns the next batch, for which it has memory in into, and what is not to be called: what
// is no longer ours, and of what was halted all that is not in this batch.
func (l *lane) take(into []item) (batch, left []item) {
	l.mu.Lock()
	defer l.mu.Unlock()
	batch = into[:0]
	// An origin that is given up need not be known: none of its messages is ours any longer.
	maps.DeleteFunc(l.left, func(of task.Gatherable, _ bool) bool { return of.Calls().Err() != nil })
	waiting, full, at := l.waiting(), l.paused, 0
	var kept []item
	var of task.Gatherable // of the message before, most often of this one, too
	wanted := false
	for ; at < len(waiting) && (l.look || !full); at++ {
		i := &waiting[at]
		if i.of != of {
			of, wanted = i.of, i.isOurs() && !l.left[i.of]
		}
		switch {
		case !wanted:
			left = append(left, *i)
		case !full && (len(batch) == 0 || !i.alone):
			batch = append(batch, *i)
			full = i.alone || len(batch) == l.size
		case l.look && i.of.Halted():
			left, l.left[i.of] = append(left, *i), true
			wanted = false
		default:
			full = true // what comes after it stays behind it
			kept = append(kept, *i)
		}
	}
	l.alone -= suspectsOf(batch) + suspectsOf(left)
	taken := waiting[:at-len(kept)]
	copy(waiting[len(taken):], kept)
	clear(taken)
	l.head += len(taken)
	if l.head == len(l.items) {
		l.compact()
	}
	l.flush, l.look = false, false
	if len(l.waiting()) > 0 {
		l.signal()
	}
	return batch, left
}

func suspectsOf(items []item) (n int) {
	for i := range items {
		if items[i].alone {
			n++
		}
	}
	return n
}

// leave has what comes after messages that were left to the next owner be left, too: it would be
// called before them.
func (l *lane) leave(items []item) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, i := range items {
		if i.isOurs() {
			l.left[i.of] = true
		}
	}
}

// giveUp takes out what was halted, unless one of the lane's callers can call it soon: those who
// rest or wait for a seat cannot, and with idle those who have nothing to do cannot either.
func (l *lane) giveUp(idle bool) (left []item) {
	l.mu.Lock()
	defer l.mu.Unlock()
	busy := l.callers - l.resting - l.standing
	if idle {
		busy -= l.idle
	}
	if !l.look || busy > 0 {
		return nil
	}
	waiting, n := l.waiting(), 0
	for _, i := range waiting {
		if i.of.Halted() || !i.isOurs() {
			left = append(left, i)
			continue
		}
		waiting[n] = i
		n++
	}
	l.alone -= suspectsOf(left)
	clear(waiting[n:])
	l.items = l.items[:l.head+n]
	l.compact()
	l.look = false
	return left
}

// compact uses the memory of what was taken again.
func (l *lane) compact() {
	if l.head == len(l.items) {
		l.items, l.head = l.items[:0], 0
	} else if l.head > len(l.items)/2 {
		n := copy(l.items, l.waiting())
		clear(l.items[n:])
		l.items, l.head = l.items[:n], 0
	}
}

// rests adds to those whose batch rests.
func (l *lane) rests(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.resting += n
}

// stands adds to those who wait for a seat.
func (l *lane) stands(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.standing += n
}

// held is how many messages wait for batches that rest.
func (l *lane) held() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.resting < l.callers {
		return 0
	}
	return len(l.waiting())
}

func (l *lane) isPaused() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.paused
}
