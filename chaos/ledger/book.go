package ledger

import "fmt"

// Record is what was produced.
type Record struct{ Key, Sequence int }

// Rules are what the actor was told to do.
type Rules struct {
	// Tries is the budget: one more than the retries.
	Tries int
	// InOrder says that a record waits until the one before it of its key is done or dead.
	InOrder bool
}

// Book is what is known of a run. It has no lock.
type Book struct {
	rules    Rules
	produced map[Position]Record
	removed  map[Position]bool
	doomed   map[Position]string
	records  map[Position]*history
	wrong    []string
	wrongs   int

	Calls, Repeats, Cancelled int
}

// history is what happened to one record.
type history struct {
	settled bool // some call of it had a verdict
	done    bool // success or skip
	tries   map[try]*outcome
}

type try struct {
	channel          bool
	replays, attempt int
}

type outcome struct {
	ended                int // with a verdict
	failed, dead, handed bool
}

// NewBook makes an empty book.
func NewBook(rules Rules) *Book {
	return &Book{rules: rules, produced: map[Position]Record{}, removed: map[Position]bool{}, doomed: map[Position]string{}, records: map[Position]*history{}}
}

// Produced notes a record that Kafka has confirmed.
func (b *Book) Produced(p Position, r Record) { b.produced[p] = r }

// Remove notes that an operator, or Kafka's retention, took a record away, or may have: it was
// counted just before.
func (b *Book) Remove(p Position) { b.removed[p] = true }

// Doom notes a record that nothing can help: it must rest in the dead set in the end, with this
// reason, whatever its calls said.
func (b *Book) Doom(p Position, reason string) { b.doomed[p] = reason }

// Settled says whether a call of the record has ended with a verdict.
func (b *Book) Settled(p Position) bool {
	h := b.records[p]
	return h != nil && h.settled
}

// Note takes the next entry of the ledger, in its order, and complains about calls that should not
// be.
func (b *Book) Note(e Entry) {
	h := b.records[e.Position]
	if h == nil {
		h = &history{tries: map[try]*outcome{}}
		b.records[e.Position] = h
	}
	t := try{e.Channel, e.Replays, e.Attempt}
	o := h.tries[t]
	if o == nil {
		o = &outcome{}
		h.tries[t] = o
	}
	if e.Kind == Began {
		b.Calls++
		b.mayBegin(e, h)
		return
	}
	if e.Kind == Cancelled {
		b.Cancelled++
		return
	}
	h.settled = true
	if e.Kind == Snoozed {
		return
	}
	if o.ended++; o.ended > 1 {
		b.Repeats++
	}
	h.done = h.done || e.Kind == Done || e.Kind == Skipped
	o.failed = o.failed || e.Kind == Failed
	o.dead = o.dead || e.Kind == Dead
	o.handed = o.handed || e.Kind == HandedOver
}

// mayBegin says what must be true before a call.
func (b *Book) mayBegin(e Entry, h *history) {
	if e.Attempt < 1 || e.Attempt > b.rules.Tries {
		b.complain("%v: attempt %d of %d", e.Position, e.Attempt, b.rules.Tries)
	}
	if e.Attempt > 1 {
		if before := h.tries[try{e.Channel, e.Replays, e.Attempt - 1}]; before == nil || !before.failed {
			b.complain("%v: attempt %d though attempt %d did not fail", e.Position, e.Attempt, e.Attempt-1)
		}
	}
	switch {
	case e.Attempt > 1 || e.Channel && h.handedOver(e.Replays):
	case e.Channel && e.Replays == 0:
		b.complain("%v: in the channel though nothing handed it over", e.Position)
	case e.Replays > 0 && !h.mayBeDead(e.Channel, e.Replays-1, b.rules.Tries):
		b.complain("%v: replayed though it was not dead", e.Position)
	}
}

// handedOver says whether the stream's handler handed the record over after so many replays.
func (h *history) handedOver(replays int) bool {
	for t, o := range h.tries {
		if o.handed && t.replays == replays {
			return true
		}
	}
	return false
}

// mayBeDead says whether the record had a reason to go to the dead set of the stream, or of the
// channel, after so many replays.
func (h *history) mayBeDead(channel bool, replays, tries int) bool {
	for t, o := range h.tries {
		if t.channel == channel && t.replays == replays && (o.dead || o.failed && t.attempt == tries) {
			return true
		}
	}
	return false
}

const mostComplaints = 20

func (b *Book) complain(format string, args ...any) {
	if b.wrongs++; b.wrongs <= mostComplaints {
		b.wrong = append(b.wrong, fmt.Sprintf(format, args...))
	}
}

// Committed takes the commit of a partition, next, and the one that was seen before it, from; none
// is 0 or less. It complains when a commit goes back, also where that only has work done again, and
// when it is past a record that no call has settled. Ask it with commits that were read before the
// ledger was: then what they are about is in the book.
func (b *Book) Committed(partition int32, from, next int64) {
	if max(next, 0) < from {
		b.complain("partition %d: the commit went back from %d to %d", partition, from, next)
	}
	for offset := max(from, 0); offset < next; offset++ {
		p := Position{partition, offset}
		if !b.Settled(p) && !b.removed[p] && b.doomed[p] == "" {
			b.complain("%v: not settled, but partition %d is committed up to %d", p, partition, next)
			return
		}
	}
}

// Done says how many of the produced records are done, and how many have a reason to rest in the
// dead set.
func (b *Book) Done() (done, dead int) {
	for p := range b.produced {
		h := b.records[p]
		switch {
		case h == nil:
		case h.done:
			done++
		case h.restsDead(b.rules.Tries):
			dead++
		}
	}
	return done, dead
}

// restsDead says whether the last budget was used up: that of the channel, if the record came
// there.
func (h *history) restsDead(tries int) bool {
	last, channel := 0, false
	for t := range h.tries {
		channel = channel || t.channel
	}
	for t := range h.tries {
		if t.channel == channel {
			last = max(last, t.replays)
		}
	}
	return h.mayBeDead(channel, last, tries)
}

// Over says whether nothing is left to do: all records are done, have a reason to rest in the dead
// set, or were removed. Of doomed ones it cannot tell.
func (b *Book) Over() bool {
	for p := range b.produced {
		if h := b.records[p]; !b.removed[p] && b.doomed[p] == "" && (h == nil || !h.done && !h.restsDead(b.rules.Tries)) {
			return false
		}
	}
	return true
}
