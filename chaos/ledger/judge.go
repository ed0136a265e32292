package ledger

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stepwell/stepwell"
)

// End is what a run left behind, when all actors were gone.
type End struct {
	// Queues are the records in each queue, once for each copy.
	Queues map[string][]Position
	// Reasons are those of the messages in the dead set.
	Reasons map[Position]string
	// Held is how many more messages an operator's delete may have taken, of which it is not known
	// which they were.
	Held int
	// Committed is where a next actor would go on in each partition.
	Committed map[int32]int64
}

// Report is the verdict over a run.
type Report struct {
	Records, Calls, Repeats, Cancelled, Removed, Copies, Resting int

	Lost  []Position
	Wrong []string
}

// Judge counts what is lost and says what else is wrong, or is as it should be. entries are the
// whole ledger, in order.
func (b *Book) Judge(end End, entries []Entry) Report {
	r := Report{Records: len(b.produced), Calls: b.Calls, Repeats: b.Repeats, Cancelled: b.Cancelled, Removed: len(b.removed)}
	resting := b.resting(end, &r)
	unread := 0
	for p := range b.produced {
		h := b.records[p]
		switch {
		case h != nil && h.done || resting[p] || b.removed[p]:
		case p.Offset >= end.Committed[p.Partition]:
			unread++ // a next actor would handle it
		default:
			r.Lost = append(r.Lost, p)
		}
	}
	if unread > 0 {
		b.complain("%d records are not committed, and were not handled though there was time", unread)
	}
	slices.SortFunc(r.Lost, compare)
	if len(r.Lost) <= end.Held {
		r.Lost = nil
	}
	b.doomedOnly(end.Reasons)
	b.authentic(entries)
	b.inOrder(entries)
	if b.rules.InOrder {
		b.heldBack(entries)
	}
	r.Wrong = b.wrong
	if more := b.wrongs - len(b.wrong); more > 0 {
		r.Wrong = append(slices.Clip(r.Wrong), fmt.Sprintf("and %d more like these", more))
	}
	return r
}

// resting is what is in a queue. A message that nobody produced, or that is dead without a reason,
// does not belong there.
func (b *Book) resting(end End, r *Report) map[Position]bool {
	resting := map[Position]bool{}
	for _, name := range slices.Sorted(maps.Keys(end.Queues)) {
		for _, p := range end.Queues[name] {
			h := b.records[p]
			if _, ok := b.produced[p]; !ok {
				b.complain("%v: in queue %s, but it was never produced", p, name)
			}
			if strings.HasSuffix(name, ".dead_set") && b.doomed[p] == "" && (h == nil || !h.everDead(b.rules.Tries)) {
				b.complain("%v: in the dead set without a reason", p)
			}
			if resting[p] || h != nil && h.done {
				r.Copies++
			}
			resting[p] = true
		}
	}
	r.Resting = len(resting)
	return resting
}

// doomedOnly complains about doomed records that do not rest in the dead set with their reason, and
// about others that have such a reason.
func (b *Book) doomedOnly(reasons map[Position]string) {
	for p, want := range b.doomed {
		if got := reasons[p]; got != want {
			b.complain("%v: its reason in the dead set is %q and should be %q", p, got, want)
		}
	}
	for p, got := range reasons {
		if b.doomed[p] == "" && got != stepwell.ReasonExhausted && got != stepwell.ReasonDeadLetter {
			b.complain("%v: in the dead set with the reason %q", p, got)
		}
	}
}

func (h *history) everDead(tries int) bool {
	for t := range h.tries {
		if h.mayBeDead(t.channel, t.replays, tries) {
			return true
		}
	}
	return false
}

// authentic complains about calls with a record that is not the one that was produced there.
func (b *Book) authentic(entries []Entry) {
	for _, e := range entries {
		if r, ok := b.produced[e.Position]; !ok || r != (Record{e.Key, e.Sequence}) {
			b.complain("%v: the handler saw key %d and sequence %d, produced was %v (%t)", e.Position, e.Key, e.Sequence, r, ok)
		}
	}
}

// inOrder complains where the first try of a record ever began before that of its key's record
// before it had ended. Tries that are made again after a crash are not first ones.
func (b *Book) inOrder(entries []Entry) {
	before := b.before()
	ended, began := map[Position]bool{}, map[Position]bool{}
	for _, e := range entries {
		if e.Attempt != 1 || e.Replays != 0 || e.Channel {
			continue
		}
		switch p, ok := before[e.Position]; {
		case e.Kind == Cancelled:
		case e.Kind != Began:
			ended[e.Position] = true
		case !began[e.Position]:
			began[e.Position] = true
			if ok && !ended[p] && !b.removed[p] && b.doomed[p] == "" {
				b.complain("%v: began before %v of the same key had ended", e.Position, p)
			}
		}
	}
}

func compare(x, y Position) int {
	return cmp.Or(cmp.Compare(x.Partition, y.Partition), cmp.Compare(x.Offset, y.Offset))
}
