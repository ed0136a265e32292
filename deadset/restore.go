package deadset

import (
	"context"
	"fmt"

	"github.com/stepwell/stepwell/internal/queue"
)

// Restoration is a choice of what is in a trash.
type Restoration struct {
	of   Trash
	what Choice
}

// Choose chooses messages of the trash; see [Set.Choose].
func (t Trash) Choose(sel Selection) (Restoration, error) {
	what, err := t.set.Choose(sel)
	return Restoration{t, what}, err
}

// Sample counts what would be restored; see [Choice.Sample].
func (r Restoration) Sample(ctx context.Context) (Sample, error) { return r.what.Sample(ctx) }

// Restore moves messages of the choice back to where the dead arrive, behind what is there and in
// the order in which they were deleted, as [Choice.Replay] replays them. They are what they were
// before the delete.
//
// A message that lies there already, since a restore or the delete was cut off, is only removed
// from the trash. Where more have arrived than a window shows, or other walks moved them since,
// that cannot be seen: then what was cut off comes back twice.
func (r Restoration) Restore(ctx context.Context, enough <-chan struct{}, most int) (Turn, error) {
	home := r.of.from
	home.recent.forget()
	defer home.recent.forget()
	var there prints
	t, err := r.what.turn(ctx, errand{
		most: most, enough: enough,
		begin: func(ctx context.Context, lease queue.Lease) (err error) {
			there, err = arrivedIn(ctx, home, lease)
			return err
		},
		act: func(ctx context.Context, h *held, done func(error)) {
			if of, known := h.printed(); known {
				if there[of] {
					done(nil)
					return
				}
				there[of] = true // if it does not come there, this one stays in the trash
			}
			home.publisher.Publish(ctx, home.cfg.Queue, unmoved(h.Message), done)
		},
	})
	if err != nil {
		return t, fmt.Errorf("restore: %w", err)
	}
	return t, nil
}

// arrivedIn has the prints of what a window shows where the dead arrive. What came back too often
// is published anew: each turn of a restore looks there.
func arrivedIn(ctx context.Context, s *Set, lease queue.Lease) (prints, error) {
	there := prints{}
	depth, err := lease.Depth(ctx)
	if err != nil || depth == 0 {
		return there, err
	}
	at := part{lease, s.cfg.Queue, arrivals, 0, depth}
	found, _, err := at.clear(ctx, s.cfg.WalkBytes, nil)
	returns := int64(0)
	for _, h := range found {
		if of, known := h.printed(); known {
			there[of] = true
		}
		returns = max(returns, h.Returns)
	}
	if err == nil && isWorn(s.cfg.Broker, at, returns) {
		err = s.renewAll(ctx, at)
	}
	return there, err
}
