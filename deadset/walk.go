package deadset

import (
	"context"
	"errors"
	"time"

	"github.com/stepwell/stepwell/internal/failpoint"
	"github.com/stepwell/stepwell/internal/queue"
)

// closeTime bounds the end of a window: acks, the rest given back, the queue looked at.
const closeTime = 30 * time.Second

// act acks those messages that it is done with, and says how many.
type act func(ctx context.Context, all []queue.Delivery) (int, error)

// walk acts on the count oldest messages of that kind, window by window, and on no more than there were at the start. Those it leaves out stay
// at the head of the queue: where they fill a window it sees nothing beyond them.
func (s *Set) walk(ctx context.Context, count int, which func(queue.Delivery) bool, do act) (r Result, err error) {
	s.forget()
	defer s.forget()
	r.Requested = count
	lease, err := s.cfg.Broker.Lease(ctx, s.cfg.Queue)
	if err != nil {
		return r, err
	}
	defer lease.Release()
	for first, more := true, true; more && r.Done < count && err == nil; first = false {
		limit, passed := count-r.Done, 0
		if r.LeftOut > 0 {
			limit = windowSize
		}
		var st step
		st, err = s.step(ctx, lease, limit, pick(which, count-r.Done, &passed, do))
		if first && err == nil {
			count = min(count, st.depth) // those that arrive meanwhile are not ours
		}
		r.Done += st.done
		more = st.done > 0 || passed > r.LeftOut
		r.LeftOut = max(r.LeftOut, passed)
		if err == nil || st.depth > 0 { // else there was no window, and what the one before showed still holds
			r.Left = st.after
		}
	}
	if err != nil {
		r.Stopped = err.Error()
	}
	return r, err
}

// pick is do for at most so many messages, of that kind; passed tells how many others came before the last of them.
func pick(which func(queue.Delivery) bool, most int, passed *int, do act) act {
	return func(ctx context.Context, all []queue.Delivery) (int, error) {
		chosen := make([]queue.Delivery, 0, min(most, len(all)))
		for _, d := range all {
			if len(chosen) == most {
				break
			}
			if !which(d) {
				*passed++
				continue
			}
			chosen = append(chosen, d)
		}
		return do(ctx, chosen)
	}
}

// step is what became of one window: how many messages there were, how many are known to be gone, how many there are now.
type step struct{ depth, done, after int }

func (s *Set) step(ctx context.Context, lease queue.Lease, limit int, do act) (st step, err error) {
	w, err := lease.Window(ctx, min(limit, windowSize), s.cfg.WalkBytes)
	if err != nil {
		return st, err
	}
	st.depth = w.Depth()
	failpoint.Hit("walk held")
	acked, err := do(ctx, w.Deliveries())
	failpoint.Hit("walk acked")
	// Also after an error, and beyond a context that is over: what is confirmed elsewhere must be removed.
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	after, closeErr := w.Close(closing)
	failpoint.Hit("walk closed")
	st.done, st.after = gone(st.depth, acked, after, closeErr)
	return st, errors.Join(err, closeErr)
}

// gone says how many of those acked are known to be gone, and how many messages are left. Acks have no confirm: where the window's
// end went wrong, only what the queue shows counts.
func gone(depth, acked, after int, closeErr error) (done, left int) {
	switch {
	case closeErr == nil:
		return acked, after
	case after == 0: // nobody could look
		return 0, depth
	default:
		return min(acked, max(0, depth-after)), after
	}
}
