package deadset

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stepwell/stepwell/internal/queue"
)

// The pages of a trash are emptied by time, the oldest first, and filled behind the last one: their
// numbers would come to an end, though nearly all were empty. So they are two runs, and the one
// that was filled first comes behind the other as soon as it is empty.

// runs are how many runs the numbers are cut into.
func (p *pages) runs() int {
	if p.ttl > 0 {
		return 2
	}
	return 1
}

// size is how many numbers a run has.
func (p *pages) size() int { return MaxPages / p.runs() }

// find looks for the pages that were there, and for more, and tells of each how deep it is.
func (p *pages) find(more bool, depth func(queue.Spec) (int, error), tell func(k, depth int)) error {
	for run := range p.runs() {
		if err := p.findRun(run, more, depth, tell); err != nil {
			return err
		}
	}
	return nil
}

func (p *pages) findRun(run int, more bool, depth func(queue.Spec) (int, error), tell func(k, depth int)) error {
	first, top, there := run*p.size(), p.topOf(run), 0
	var missing, gaps []int
	for i := 0; i < p.size() && (more || i < top); i++ {
		k := first + i
		n, err := depth(p.spec(k))
		switch {
		case errors.Is(err, queue.ErrMissing):
			p.saw(k, false, true)
			missing = append(missing, k)
			if i >= top {
				more = false
			}
			continue
		case err != nil:
			return err
		}
		p.saw(k, n == 0, false)
		there, gaps = i+1, missing
		tell(k, n)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tops[run], p.gaps[run] = there, gaps
	return nil
}

// mend makes pages again that somebody deleted, since they were empty, before others that were
// there at the last look: who looks for the first time would not see these.
func (g Pages) mend(ctx context.Context) error {
	p := g.set.pages
	p.mu.Lock()
	gaps := slices.Concat(p.gaps[:]...)
	p.mu.Unlock()
	if len(gaps) == 0 || p.kept { // nobody here may make them
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, prepareTime)
	defer cancel()
	var specs []queue.Spec
	var names []string
	for _, k := range gaps {
		of := p.spec(k)
		if _, err := p.broker.Depth(ctx, of.Name); errors.Is(err, queue.ErrMissing) { // or it was made meanwhile
			specs, names = append(specs, of), append(names, of.Name)
		}
	}
	made, err := p.broker.Prove(ctx, specs)
	if made > 0 {
		g.set.cfg.Logger.Warn("pages are missing before others, and are made again, empty: whoever starts would not find those behind them", "queues", names[:made])
	}
	return err
}

// topOf is how many pages a run had.
func (p *pages) topOf(run int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tops[run]
}

// inOrder puts the run with the older messages first. Both have some only while one is emptied by
// time and the other is filled: then a page of each says which is which, by the places of its
// messages.
func (p *pages) inOrder(ctx context.Context, all []part) ([]part, error) {
	half := slices.IndexFunc(all, func(of part) bool { return of.number >= p.size() })
	if half < 0 {
		return all, nil
	}
	first, second := all[:half], all[half:]
	one, other := lastOf(first), lastOf(second)
	if other < 0 {
		return all, nil
	}
	if one >= 0 {
		a, err := p.placeIn(ctx, *pageIn(first, one))
		if err != nil {
			return nil, err
		}
		b, err := p.placeIn(ctx, *pageIn(second, other))
		if err != nil || a <= b {
			return all, err
		}
	}
	p.turn()
	turned := slices.Concat(second, first)
	for i := range turned {
		turned[i].number = (turned[i].number + p.size()) % MaxPages
	}
	return turned, nil
}

// placeIn is the place of the last message of a page; 0: it has none any more.
func (p *pages) placeIn(ctx context.Context, of part) (place int64, err error) {
	found, _, err := of.clear(ctx, p.bytes, nil)
	for _, h := range found {
		place = max(place, placeOf(&h.Delivery))
	}
	return place, err
}

// isTurned says whether the second run by its names comes first.
func (p *pages) isTurned() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.turned
}

// turn has the second run come before the first: what is there to be filled next lies behind both.
func (p *pages) turn() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turned = !p.turned
	p.tops[0], p.tops[1], p.gaps = p.tops[1], p.tops[0], [2][]int{}
	p.empty, p.proven, p.enough = map[int]time.Time{}, nil, false
	p.operation = "" // what it is about to prove has other numbers by now
}
