package deadset

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/stepwell/stepwell/internal/filter"
	"github.com/stepwell/stepwell/internal/queue"
)

// Export is what a look found, to be kept elsewhere: keys, values and headers are whole.
type Export struct {
	Span
	// Matched is how many messages there are in it.
	Matched int

	set *Set
	of  filter.Filter
	// messages are all of them; nil: they are more than a walk may hold, and read once more.
	messages []found
}

// exportTime is for how long an export reads values from Kafka.
const exportTime = time.Minute

// Export finds the messages for which the filter is true, oldest first. It looks at as much as a
// look sees, which the Span says, and gives them back at once, as a peek does: what is slow to
// write holds nobody up. It keeps their bytes, as many as a walk may hold; where they are more it
// reads them once more, part by part, when they are written. The error is as that of Peek.
func (s *Set) Export(ctx context.Context, of filter.Filter) (Export, error) {
	x := Export{set: s, of: of}
	bytes := 0
	span, err := s.survey(ctx, nil, func(f found, _ time.Time) {
		if !f.isTrue(of) {
			return
		}
		x.Matched++
		if bytes += int(f.size); bytes <= s.cfg.WalkBytes {
			x.messages = append(x.messages, f)
		} else {
			x.messages = nil
		}
	})
	x.Span = span
	return x, err
}

// errChanged: an export could not be written as it was counted.
var errChanged = errors.New("the dead set was changed while it was written")

// Each calls do with one message after the other, until all are done, or do or ctx has an error. A
// value that is only in Kafka is read when its turn comes; where it cannot be read within a minute
// of all, its ValueError says so, and the others follow.
func (x Export) Each(ctx context.Context, do func(Entry) error) error {
	reading, cancel := context.WithTimeout(ctx, exportTime)
	defer cancel()
	write := func(all []found) error {
		for _, f := range all {
			if ctx.Err() != nil {
				return fmt.Errorf("export: %w", context.Cause(ctx))
			}
			if err := do(x.whole(reading, f)); err != nil {
				return err
			}
		}
		return nil
	}
	if x.messages != nil || x.Matched == 0 {
		return write(x.messages)
	}
	return x.again(ctx, write)
}

// whole shows a message with all that it has.
func (x Export) whole(reading context.Context, f found) Entry {
	entry := f.show(math.MaxInt)
	switch {
	case !f.envelope.Pointer:
	case reading.Err() != nil:
		entry.ValueError = "the value is only in Kafka and was not read, since there was no time left"
	default:
		m, why := x.set.values.fetch(reading, f.envelope)
		if entry.ValueError = why; m != nil {
			entry.record(m, math.MaxInt)
		}
	}
	return entry
}

// exportPatience is for how long a part of an export waits for the lease.
const exportPatience = 5 * time.Second

// again reads the messages once more, a part at a time, and lets it go before it is written. As
// many as were counted have to be found; what died since is no part of it.
func (x Export) again(ctx context.Context, write func([]found) error) error {
	at := progress{number: -1}
	for left := x.Matched; left > 0; {
		found, err := x.part(ctx, &at)
		if err != nil {
			return fmt.Errorf("export: %w", err)
		}
		found = found[:min(left, len(found))]
		if err := write(found); err != nil {
			return err
		}
		if left -= len(found); left > 0 && at.number == arrivals {
			return errChanged
		}
	}
	return nil
}

// progress is how far an export is that reads the messages once more.
type progress struct {
	number int    // of the part that was read last; below 0: none was
	paged  int    // how many messages were in pages then
	moved  prints // what moves had put into it
}

// part reads the messages of the part behind that one. What moves put into the page before is left
// out, and stays: since that was read others may have had the lease, and have emptied the page.
func (x Export) part(ctx context.Context, at *progress) (all []found, err error) {
	lease, err := x.set.lease(ctx, exportPatience)
	if err != nil {
		return nil, err
	}
	defer lease.Release()
	parts, err := x.set.pages.parts(ctx, lease)
	if err != nil {
		return nil, err
	}
	if paged := pagedIn(parts); at.number >= 0 && paged != at.paged {
		return nil, errChanged
	}
	// There is one: nobody asks for what is behind the arrivals, and no trash is exported.
	of := parts[slices.IndexFunc(parts, func(p part) bool { return p.number > at.number && (p.depth > 0 || !p.isPage()) })]
	w, err := of.Window(ctx, queue.WindowSize, x.set.cfg.WalkBytes)
	if err != nil {
		return nil, err
	}
	found, removed, err := gather(ctx, w, of, nil)
	_, closeErr := w.Close(ctx)
	for _, h := range found {
		if h.found().isTrue(x.of) && !at.moved.has(h, of) {
			all = append(all, *h.found())
		}
	}
	*at = progress{of.number, pagedIn(parts) - removed, movedIn(found)}
	return all, errors.Join(err, closeErr)
}
