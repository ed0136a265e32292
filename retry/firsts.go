package retry

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/stepwell/stepwell/internal/inbox"
	"github.com/stepwell/stepwell/internal/queue"
)

// firsts parks messages after their first try, however long that takes: Kafka would not hand them
// out again before their partition is assigned anew. It counts those that are not parked yet.
type firsts struct {
	parking *parking
	trouble *inbox.Trouble
	log     *slog.Logger

	mu      sync.Mutex
	all     int // that are not parked yet
	resting int // those of them that rest, since the broker did not take them
}

// park parks a message. It calls done once, with an error if ctx ended or the broker was closed
// before the message was safe, or it is given up; see insist.
func (f *firsts) park(ctx context.Context, p *parcel, done func(error)) {
	done = f.parking.watched(p, done)
	f.count(1, 0)
	f.insist(ctx, p, func(err error) {
		f.count(-1, 0)
		done(err)
	})
}

// insist posts the parcel again and again while the broker does not take it. One that is too large
// and can be no pointer is given up: no further try would help, and its source keeps it.
func (f *firsts) insist(ctx context.Context, p *parcel, done func(error)) {
	f.parking.post(ctx, p, func(err error) {
		forGood := errors.Is(err, queue.ErrTooLarge) && !p.envelope.HasPosition()
		if err == nil || forGood || inbox.AsStop(ctx, err) {
			done(err)
			return
		}
		f.count(0, 1)
		f.trouble.Rest(ctx, err, func() {
			f.log.Error("a failed message cannot be parked: it is neither committed nor acked, and is tried again every minute", "error", err)
		}, func() {
			f.count(0, -1)
			f.insist(ctx, p, done)
		})
	})
}

// count notes that there are more messages, or less.
func (f *firsts) count(all, resting int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all += all
	f.resting += resting
}

// hopeful says that there is no such message, or that one of them does not rest and may be parked
// any moment.
func (f *firsts) hopeful() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.all == 0 || f.all > f.resting
}
