package deadset

import (
	"context"
	"errors"
	"fmt"

	"github.com/stepwell/stepwell/internal/queue"
)

// Pages cuts a dead set into pages, as [Set.Pages] returns it.
type Pages struct{ set *Set }

// Pages is for who looks after the pages of the dead set.
func (s *Set) Pages() Pages { return Pages{s} }

// Depth is how many messages the dead set has, and how many of them are in pages. The error wraps
// queue.ErrMissing where there is no dead set.
func (g Pages) Depth(ctx context.Context) (depth, paged int, err error) {
	return g.set.pages.depth(ctx)
}

// Count is Depth when nobody holds any of the messages: those that a look has not given back yet
// are counted too. The error is as that of [Set.Replay].
func (g Pages) Count(ctx context.Context) (depth, paged int, err error) {
	lease, err := g.set.lease(ctx, walkPatience)
	if err != nil {
		return 0, 0, err
	}
	defer lease.Release()
	parts, err := g.set.pages.parts(ctx, lease)
	if err != nil {
		return 0, 0, err
	}
	depth = depthOf(parts)
	return depth, depth - parts[len(parts)-1].depth, nil
}

// Tidy deletes pages that nobody has used for some minutes, also those of trashes that this process
// has seen, and makes those again that are missing before others. Call it now and then: it asks for
// the lease only where there are pages to be deleted, as the last looks have shown, and gives up at
// once where another walk has it. What is not deleted now is deleted the next time.
func (g Pages) Tidy(ctx context.Context) error {
	errs := []error{g.mend(ctx), g.tidy(ctx)}
	for _, trash := range g.set.trashes.all() {
		// Nobody else asks for their depths.
		look := func(of queue.Spec) (int, error) { return g.set.cfg.Broker.Depth(ctx, of.Name) }
		err := trash.pages.find(false, look, func(int, int) {})
		if err == nil {
			err = errors.Join(Pages{trash}.mend(ctx), Pages{trash}.tidy(ctx))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (g Pages) tidy(ctx context.Context) error {
	if !g.set.pages.stale(emptyLife) {
		return nil
	}
	lease, err := g.set.lease(ctx, 0)
	if err != nil {
		return err
	}
	defer lease.Release()
	parts, err := g.set.pages.parts(ctx, lease)
	if err != nil {
		return err
	}
	_, err = g.set.pages.drop(ctx, parts, emptyLife)
	return err
}

// Sort moves the oldest of the messages that have arrived into pages, behind what is there, at most
// so many, and begins with no more once enough is closed.
//
// Each is published to a page with the mark of the operation, and all of a page are removed where
// they were once that is confirmed. What was cut off between the two is found by whoever reads it
// next, and removed without being published again. What is too large to be published with the mark
// stays where it is.
//
// Pages are made before the lease is taken, since a queue that was just created has to rest: a turn
// that makes some may do nothing else. Where there is an error, which is as that of [Set.Replay] or
// [ErrNoPage], the Turn still says what was done before it.
func (g Pages) Sort(ctx context.Context, enough <-chan struct{}, operation string, most int) (t Turn, err error) {
	s := g.set
	// As around a walk.
	s.recent.forget()
	defer s.recent.forget()
	if s.cfg.Pages < 1 {
		return t, fmt.Errorf("sort: %w: %s allows none", ErrNoPage, s.cfg.Setting("dead_set.pages"))
	}
	m := &sorting{filling{set: s, operation: operation}, enough}
	// Before the lease: a page that was made must rest.
	err = m.prepare(ctx, func(ctx context.Context) (int, error) {
		arrived, err := s.cfg.Broker.Depth(ctx, s.cfg.Queue)
		return min(most, arrived), err
	})
	if err != nil {
		return t, fmt.Errorf("sort: %w", err)
	}
	lease, err := leaseToPublish(ctx, s)
	if err != nil {
		return t, err
	}
	defer lease.Release()
	parts, err := s.pages.parts(ctx, lease)
	if err == nil {
		err = m.turn(ctx, parts, most, &t)
	}
	if err != nil {
		return t, fmt.Errorf("sort: %w", err)
	}
	return t, nil
}

// Back moves what is in pages back to where the dead arrive, behind what is there, for programs
// that know no pages; and deletes pages that are empty, however short a time they have been.
//
// It acts as Sort does, with one difference: after a kill a message may be there twice. What a
// sort put down last lies in the last page, where the next reader finds it and removes what it was
// moved from; what this puts down last lies behind all that has arrived, where no look reaches it.
func (g Pages) Back(ctx context.Context, enough <-chan struct{}, most int) (t Turn, err error) {
	s := g.set
	s.recent.forget()
	defer s.recent.forget()
	lease, err := leaseToPublish(ctx, s)
	if err != nil {
		return t, err
	}
	defer lease.Release()
	parts, err := s.pages.parts(ctx, lease)
	if err != nil {
		return t, err
	}
	if _, err := s.finishMoves(ctx, parts); err != nil {
		return t, fmt.Errorf("move back: %w", err)
	}
	for _, p := range parts[:len(parts)-1] {
		if p.depth == 0 {
			continue
		}
		if t.More = t.More || isClosed(enough) || t.Done >= most; t.More {
			return t, nil
		}
		st, err := s.step(ctx, p, errand{most: most - t.Done, enough: enough, act: func(ctx context.Context, h *held, done func(error)) {
			s.publisher.Publish(ctx, s.cfg.Queue, unmoved(h.Message), done)
		}}, queue.WindowSize)
		t.Done += st.done
		t.LeftOut.TooLarge += st.tooLarge
		if err != nil {
			return t, fmt.Errorf("move back: %w", err)
		}
		t.More = st.cut || st.depth > st.seen
	}
	if parts, err = s.pages.parts(ctx, lease); err != nil {
		return t, err
	}
	// All is back: who may not delete queues is not told that it failed.
	if t.More, err = s.pages.drop(ctx, parts, 0); err != nil {
		s.cfg.Logger.Warn("all is moved back, and empty pages of the dead set could not be deleted", "queue", s.cfg.Queue, "error", err)
	}
	return t, nil
}

// sorting is one turn of a sort.
type sorting struct {
	filling
	enough <-chan struct{}
}

// turn fills one page after the other, each in a window of its own. It ends when it may move no
// more, when all that was there at its start is gone but what is too large, when there is no page
// to fill, or with the first error.
func (m *sorting) turn(ctx context.Context, parts []part, most int, t *Turn) error {
	if err := m.top(ctx, parts, m.set.finishMoves); err != nil {
		return err
	}
	source := parts[len(parts)-1]
	there, tooLarge := source.depth, 0
	for there > tooLarge && t.Done < most {
		if isClosed(m.enough) {
			t.More = true
			break
		}
		if !m.room() {
			var err error
			t.More, err = m.noRoom(t.Done > 0)
			return err
		}
		st, err := m.fill(ctx, source, most-t.Done, min(most-t.Done+tooLarge, there))
		there -= st.done
		t.Done += st.done
		t.Unseen, t.LeftOut.TooLarge = there, st.tooLarge
		if err == nil {
			err = m.once(ctx, parts)
		}
		if err != nil {
			return err
		}
		if !m.full && st.done == 0 && st.tooLarge == tooLarge {
			t.More = st.cut // since its time is over
			break
		}
		tooLarge = st.tooLarge
	}
	return nil
}

// fill moves the oldest that have arrived into the page, in one window: once that is closed, the
// broker has taken all acks, so that nothing of it can be left in both places. What can be, if the
// process dies before, lies in this page alone: see finishMoves.
func (m *sorting) fill(ctx context.Context, from part, most, oldest int) (step, error) {
	st, err := m.set.step(ctx, from, errand{most: most, late: true, enough: m.enough, full: m.isFull, act: m.put}, oldest)
	m.filled()
	if err == nil && isWorn(m.set.cfg.Broker, from, st.returns) && st.depth > st.done {
		err = m.set.renewAll(ctx, from)
	}
	return st, err
}
