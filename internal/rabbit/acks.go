package rabbit

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/stepwell/stepwell/internal/queue"
)

// mark is what is known of a delivery tag.
type mark uint8

const (
	held     mark = iota + 1 // handed out, not settled
	acked                    // to be acked
	released                 // to be given back
	told                     // the broker was told
)

// acks gathers the acks and releases of one channel and says how to tell the broker with few
// frames. Tags begin at one and have no gaps. It knows nothing of the channel: another goroutine
// asks for the plan and sends it.
type acks struct {
	wake  chan struct{} // readable when there is something new to tell, or enough of it
	quiet chan struct{} // readable when nothing is handed out any longer

	// mu guards the fields below.
	mu sync.Mutex
	// marks has a byte for each tag from base on: those before base are settled, and the broker was
	// told, but for those in old. These are held, or released and wait, for so long that more than
	// keep marks, nearly all of them told, were behind them.
	base  uint64
	marks []mark
	old   map[uint64]mark
	keep  int
	// open counts the tags that are held.
	open int
	// unsaid counts those that are settled and in no plan yet, and left those of them that the last
	// plan left out.
	unsaid, left int
	// enough is how many more do not wait for others. Who tells the broker is not woken for each:
	// only for the first, whose wait begins, and when there are enough.
	enough int
	// most is how many a plan may leave out.
	most int
	// dead: the channel is over, and its tags mean nothing any longer.
	dead bool
	// asked are those who wait in Flush; each channel has room for its one answer.
	asked []chan<- error
	// leaving says that nothing is to be told now; nil: never. It is asked under the lock: what is
	// released because of it is in no plan.
	leaving func() bool
	// stop has ended once a stop has begun. Until letGo is called only acks are told then, and what
	// is released waits: it takes a frame each, and behind 32 of them the channel could drop acks
	// when it is closed (see restTime). Frames from before the cancel are none of the 32: the queue
	// has applied what it was passed when it answers that.
	stop  context.Context
	letgo bool
}

// keepAtLeast is how many marks are kept of what the broker was told: each plan may look at them.
const keepAtLeast = 1000

func newAcks() *acks {
	return &acks{stop: context.Background(), base: 1, old: map[uint64]mark{}, keep: keepAtLeast, enough: 1, wake: make(chan struct{}, 1), quiet: make(chan struct{}, 1)}
}

// take notes that the tag is handed out.
func (a *acks) take(tag uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	// A loop, though tags come one after another: a gap would make all later acks go to the wrong
	// tag.
	for a.base+uint64(len(a.marks)) <= tag {
		a.marks = append(a.marks, held)
	}
	a.open++
}

// Ack and Release make acks a queue.Session.
func (a *acks) Ack(tag uint64)     { a.settle(tag, acked) }
func (a *acks) Release(tag uint64) { a.settle(tag, released) }

var _ queue.Session = (*acks)(nil)

// Flush has the acks sent now, and waits until the broker has answered what is sent after them, and
// a quorum queue has had time for them.
func (a *acks) Flush(ctx context.Context) error {
	done := make(chan error, 1)
	a.mu.Lock()
	if a.dead {
		a.mu.Unlock()
		return errSessionOver
	}
	a.asked = append(a.asked, done)
	signal(a.wake)
	a.mu.Unlock()
	select {
	case err := <-done:
		if err == nil && !sleep(ctx, restTime) {
			return ctx.Err()
		}
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// settle notes what becomes of a held tag. A second ack or release of a tag changes nothing: the
// broker closes the channel over a tag that it does not know.
func (a *acks) settle(tag uint64, as mark) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch at := tag - a.base; {
	case a.dead:
		return
	case tag < a.base && a.old[tag] == held:
		a.old[tag] = as
	case tag >= a.base && at < uint64(len(a.marks)) && a.marks[at] == held:
		a.marks[at] = as
	default:
		return
	}
	a.open--
	if a.unsaid++; a.unsaid-a.left == 1 || a.unsaid-a.left >= a.enough {
		signal(a.wake)
	}
	if a.open == 0 {
		signal(a.quiet)
	}
}

// letGo ends the wait of what is released.
func (a *acks) letGo() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.letgo = true
}

// signal makes c readable, and does not wait: one signal stands for many.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// die drops what was not told, and all that comes.
func (a *acks) die() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.dead, a.marks, a.open, a.unsaid, a.left = true, nil, 0, 0, 0
	for _, done := range a.asked {
		done <- errSessionOver
	}
	a.asked = nil
	clear(a.old)
	signal(a.quiet)
}

// outstanding returns how many are handed out and not settled.
func (a *acks) outstanding() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.open
}

// next is the tag that comes next.
func (a *acks) next() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.base + uint64(len(a.marks))
}

// heldFrom returns how many of the tags from first on are handed out and not settled.
func (a *acks) heldFrom(first uint64) (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, m := range a.marks {
		if m == held && a.base+uint64(i) >= first {
			n++
		}
	}
	for tag, m := range a.old {
		if m == held && tag >= first {
			n++
		}
	}
	return n
}

// gather says how many acks are enough, and how many a plan may leave out.
func (a *acks) gather(enough, most int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	// Several times what is under way as a rule: those that are held may go with others then.
	a.enough, a.most, a.keep = enough, most, keepAtLeast+4*most
	// Else whoever tells the broker has been woken by the first, or has nothing to tell.
	if a.unsaid-a.left >= enough {
		signal(a.wake)
	}
}

// urgent says whether to tell the broker now: enough are settled and in no plan yet, or somebody
// asked for it.
func (a *acks) urgent() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.unsaid-a.left >= a.enough || len(a.asked) > 0
}

// word is one thing to tell the broker.
type word struct {
	tag      uint64
	multiple bool // with all tags before
	requeue  bool // give back instead of ack
}

// plan returns what to tell the broker, in order: what is settled without a gap goes in one ack.
// What is settled behind a held tag needs a word each, which costs the broker as much as an ack of
// a hundred. It is left for the next plan, by which the gap may have closed, unless all is to be
// told or too much would be left; who asked for a flush has all told, and is returned, to be
// answered then. The last result is how much is left.
func (a *acks) plan(all bool) (words []word, asked []chan<- error, left int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.leaving != nil && a.leaving() {
		return nil, nil, a.unsaid + len(a.asked)
	}
	asked, a.asked = a.asked, nil
	waits := a.stop.Err() != nil && !a.letgo
	var last uint64
	n := 0
	for ; len(a.old) == 0 && n < len(a.marks) && a.marks[n] != held; n++ {
		if waits && a.marks[n] == released {
			break
		}
		switch a.marks[n] { //nolint:exhaustive // the other states need nothing here
		case acked:
			a.unsaid--
			last = a.base + uint64(n)
		// Ahead of the ack that covers its tag: a tag that was given back is out of what that ack
		// reaches.
		case released:
			a.unsaid--
			words = append(words, word{tag: a.base + uint64(n), requeue: true})
		}
	}
	if last > 0 {
		words = append(words, word{tag: last, multiple: true})
	}
	a.marks = a.marks[n:]
	a.base += uint64(n)
	if all || len(asked) > 0 || a.unsaid > a.most {
		words = a.planOneByOne(words, waits)
	}
	a.left = a.unsaid
	return words, asked, a.left
}

// planOneByOne appends a word for each tag that is settled behind the first one that stays: "all
// before" would ack that one too. What is released stays as well where it waits.
func (a *acks) planOneByOne(words []word, waits bool) []word {
	goes := func(m mark) bool { return m == acked || m == released && !waits }
	for _, tag := range slices.Sorted(maps.Keys(a.old)) { // few, or none
		if m := a.old[tag]; goes(m) {
			words = append(words, word{tag: tag, requeue: m == released})
			delete(a.old, tag)
			a.unsaid--
		}
	}
	for i := 0; a.unsaid > 0 && i < len(a.marks); i++ {
		if m := a.marks[i]; goes(m) {
			words = append(words, word{tag: a.base + uint64(i), requeue: m == released})
			a.marks[i] = told
			a.unsaid--
		}
	}
	if len(a.marks) > a.keep {
		a.forgetTold()
	}
	return words
}

// forgetTold drops the marks of what was told, and keeps the others as old.
func (a *acks) forgetTold() {
	for i, m := range a.marks {
		if m != told {
			a.old[a.base+uint64(i)] = m
		}
	}
	a.base += uint64(len(a.marks))
	a.marks = a.marks[:0]
}
