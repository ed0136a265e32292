package ledger

import "time"

// Ledger has the books of one assignment of a partition: from where it is read, which of its
// records are settled, and what the next commit says. Records are added in the order of their
// offsets and settled in any. See the package for a picture and the terms.
type Ledger struct {
	// Guard says which records may be handed out. Its zero value restricts nothing.
	Guard Guard
	// Rests are the calls that rest.
	Rests Rests
	rules Rules

	// Log is which log the partition's is.
	Log log
	// window knows what is settled of what was read; calls, what was handed out; front, since when
	// the first open record is that; inherited, what is settled beyond the window, by the commit.
	window    window
	calls     calls
	front     front
	inherited inherited
	topicID   [16]byte
	// start is where this assignment began to read; negative: not known yet.
	start    int64
	expected int64 // the offset after the last record added; negative: not known yet
	end      int64 // of the log, as far as it was seen; negative: not known yet
	epoch    int32 // the highest leader epoch of the records added; -1: there is none

	// sent is the last checkpoint that is known to be stored, or where this assignment began.
	sent     Checkpoint
	changes  uint64 // how often anything was settled
	restate  bool   // the beginning is to be committed, though nothing is settled yet
	parting  bool   // the next commits are the last ones of this assignment
	sentence int64  // the record that was condemned; -1: none
}

// Checkpoint is what to commit.
type Checkpoint struct {
	At       Position
	Metadata string
	mark     Mark
	changes  uint64 // of the ledger when it was made
}

// New returns the ledger of an assignment of which nothing is known yet. draw returns a number for
// a log, which no other log has, and never 0; nil: logs have no numbers.
func New(rules Rules, draw func() uint32) Ledger {
	return Ledger{
		Guard: NewGuard(NoMark(), 0, rules), rules: rules,
		Rests: Rests{}, Log: newLog(draw),
		window: newWindow(At(-1, -1)), calls: newCalls(), inherited: inherited{noMetadata()},
		start: -1, expected: -1, end: -1, epoch: -1, sent: Checkpoint{At: At(-1, -1)}, sentence: -1,
	}
}

// Restore notes what the commit at offset says, from which the assignment begins.
func (l *Ledger) Restore(offset int64, metadata string) {
	l.inherited = inherited{ReadMetadata(offset, metadata)}
	l.Log.restore(l.inherited.Log)
	if !l.Guard.begun {
		l.Guard = NewGuard(l.inherited.MarkOrNone(), offset, l.rules)
	}
}

// Begin says from where the partition is read, as soon as that is known; restate, that this is to
// be committed. It changes nothing once records were added.
func (l *Ledger) Begin(at Position, restate bool) {
	if l.expected > l.start {
		return
	}
	l.start, l.expected, l.sent.At, l.restate = at.Offset, at.Offset, at, restate
	l.window.Begin(at)
}

// Identify says of which topic the records are that come next. The first time it is compared with
// the one that the commit was about: its metadata may have been copied from another cluster.
func (l *Ledger) Identify(topicID [16]byte) {
	first, anew := l.topicID == [16]byte{}, topicID != l.topicID && topicID != [16]byte{}
	l.topicID = topicID
	switch {
	case first && l.inherited.isOfAnother(topicID):
		l.inherited = inherited{noMetadata()}
		l.Guard = NewGuard(NoMark(), l.start, l.rules)
		l.Log.renew()
	case !first && anew: // a fetcher may find that before the group's member does
		l.Log.renew()
	}
}

// TopicID is what Identify said last; zero: nothing, or the brokers know no IDs.
func (l *Ledger) TopicID() [16]byte { return l.topicID }

// Reserve makes room for n more records: Add is called for no more than that.
func (l *Ledger) Reserve(n int) { l.window.Reserve(n) }

// Add enters a record. It reports whether the commit says that it is settled, beyond what it
// commits.
func (l *Ledger) Add(offset int64, epoch int32, bytes int) (known bool) {
	if l.start < 0 {
		l.Begin(At(offset, -1), l.restate)
	}
	if l.window.Len() == 0 && offset > l.calls.handedOut {
		l.calls.pass(offset)
	}
	l.window.Add(offset, epoch, bytes)
	l.expected = offset + 1
	l.epoch = max(l.epoch, epoch)
	if len(l.inherited.Spans) == 0 {
		return false
	}
	if l.inherited.isCut(offset, epoch) {
		l.Log.renew()
	}
	return l.inherited.knows(offset, epoch)
}

// Expected is the offset that the next record should have; negative: not known.
func (l *Ledger) Expected() int64 { return l.expected }

// GoOn says that the log is another one from here on: what the commit said of records that are to
// come is of others, and records before offset that were not read are gone.
func (l *Ledger) GoOn(offset int64) {
	// Offsets of the new log may be the same, but they are other records: taken for settled they
	// would be passed over.
	l.inherited.Spans = nil
	l.Log.renew()
	if l.expected >= 0 {
		l.expected = max(l.expected, offset)
	}
}

// Emptied says that all records from the expected one on, up to where the log ends, are gone before
// they were read: so many are returned, and the next commit says so. It changes nothing while
// records before them are open, nor where another record is expected by now.
func (l *Ledger) Emptied(expected, end int64) (gone int64) {
	if expected < 0 || l.expected != expected || end <= expected || l.window.Len() > 0 {
		return 0
	}
	l.expected = end
	l.inherited.Spans = nil     // what a commit said is settled of them is gone, too
	l.window.Begin(At(end, -1)) // which leader wrote the last of them nobody knows
	l.changes++
	return end - expected
}

// SawEnd notes where the log ends for its reader: before an open transaction, if it waits for
// those.
func (l *Ledger) SawEnd(offset int64) {
	l.end = max(l.end, offset)
	l.Guard.SawEnd(offset)
}

// Lag is how many offsets lie between the settled prefix and the end of the log.
func (l *Ledger) Lag() int64 {
	at := l.start
	if next, ok := l.window.Committable(); ok {
		at = next.Offset
	}
	if at < 0 || l.end < 0 {
		return 0
	}
	return max(0, l.end-at)
}

// HandOut says that all records before offset were handed out, or are settled.
func (l *Ledger) HandOut(offset int64) { l.calls.handedOut = offset }

// Settle marks the offsets from first to last, and says what that frees. What is settled already,
// or was never added, changes nothing.
func (l *Ledger) Settle(first, last int64) Freed {
	if first == last {
		delete(l.calls.pending, first)
	}
	f := l.window.SettleRange(first, last)
	if f.Records > 0 {
		l.changes++
	}
	return f
}

// Settled says whether an offset is settled.
func (l *Ledger) Settled(offset int64) bool { return l.window.Settled(offset) }

// Pend says that the call for a record is over and that it will be settled later.
func (l *Ledger) Pend(offset int64) {
	if !l.window.Settled(offset) {
		l.calls.pending[offset] = struct{}{}
	}
}

// Quiet says that no record is pending.
func (l *Ledger) Quiet() bool { return len(l.calls.pending) == 0 }

// Left is what would be freed if all that is open were settled.
func (l *Ledger) Left() Freed {
	return Freed{Records: l.window.Unsettled(), Bytes: l.window.Bytes(), Span: l.window.Len()}
}

// FirstOpen is the first offset that is not settled, read or not.
func (l *Ledger) FirstOpen() int64 {
	if first, ok := l.window.First(); ok {
		return first
	}
	return l.inherited.past(At(max(l.window.next.Offset, l.expected), -1)).Offset
}

// ResumeAt is where to read from when the log was cut: where it was cut, or at the first open
// record, if that comes before.
func (l *Ledger) ResumeAt(cut Position) Position {
	if next, ok := l.window.Committable(); ok && next.Offset < cut.Offset {
		return next
	}
	return cut
}

// Oldest is the first open record of those that were read, since when it is that (as far as this is
// asked now and then), and how many are in the window behind it.
func (l *Ledger) Oldest(now time.Time) (offset int64, since time.Time, behind int, open bool) {
	offset, open = l.window.First()
	return offset, l.front.see(offset, open, now), l.window.Len() - 1, open
}

// Part says that the next commits are the last ones of this assignment: they say that nobody died,
// unless it does not end in good order.
func (l *Ledger) Part(inGoodOrder bool) { l.parting = inGoodOrder }

// Condemn says that the record at offset goes to the dead set uncalled.
func (l *Ledger) Condemn(offset int64) {
	l.Guard.now.Condemned++
	l.sentence = offset
}
