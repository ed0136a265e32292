package retry

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stepwell/stepwell/internal/queue"
)

// pauseAfterTrouble is how long a message rests that the broker does not take, before it is tried again.
const pauseAfterTrouble = time.Minute

// trouble knows of the messages that the broker does not take.
type trouble struct {
	mu      sync.Mutex
	parking int // first tries that Fail has and are not parked
	refused int // how many of those rest
	resting int // all that rest, deliveries too
	last    error
	said    time.Time
}

// parks notes n more messages, or less, that Fail has.
func (t *trouble) parks(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.parking += n
}

// rests notes a message that rests because of err, until the returned function is called. It reports whether to log that: it is
// done once a minute, since a whole window of messages may meet the same trouble at once.
func (t *trouble) rests(err error, first bool) (over func(), say bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count(1, first)
	t.last = err
	if say = time.Since(t.said) >= pauseAfterTrouble; say {
		t.said = time.Now()
	}
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.count(-1, first)
	}, say
}

func (t *trouble) count(n int, first bool) {
	t.resting += n
	if first {
		t.refused += n
	}
}

// text says what is wrong; empty: nothing is.
func (t *trouble) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.resting == 0 {
		return ""
	}
	return fmt.Sprintf("%d messages cannot be parked and wait for the next attempt, the last one because of: %v", t.resting, t.last)
}

// hopeful says that of the messages that Fail has one may be parked any moment, or that it has none.
func (t *trouble) hopeful() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.parking == 0 || t.parking > t.refused
}

// asStop says whether the error of a publish comes from a stop.
func asStop(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, queue.ErrClosed)
}

// insist posts the parcel of a first try again and again while the broker does not take it: Kafka would not hand the message out again
// before its partition is assigned anew.
func (r *Retrier) insist(ctx context.Context, p *parcel, done func(error)) {
	r.post(ctx, p, func(err error) {
		if err == nil || asStop(ctx, err) {
			done(err)
			return
		}
		over, say := r.trouble.rests(err, true)
		if say {
			r.cfg.Logger.Error("a failed message cannot be parked: its partition's commits wait for it, and it is tried again every minute", "error", err)
		}
		resting(ctx, func() {
			over()
			r.insist(ctx, p, done)
		})
	})
}

// later calls release, at once when err comes from a stop, else after a pause, which a stop ends: an error that stays must not make a busy loop.
func (r *Retrier) later(stop, work context.Context, d queue.Delivery, err error, release func()) {
	if stop.Err() != nil || asStop(work, err) {
		release()
		return
	}
	over, say := r.trouble.rests(err, false)
	if say {
		r.cfg.Logger.Error("a message cannot be parked and stays where it is", "queue", d.Queue, "id", d.ID, "error", err)
	}
	resting(stop, func() {
		over()
		release()
	})
}

// resting calls then after the pause, or when ctx ends.
func resting(ctx context.Context, then func()) {
	pause, cancel := context.WithTimeout(ctx, pauseAfterTrouble)
	context.AfterFunc(pause, func() {
		cancel()
		then()
	})
}
