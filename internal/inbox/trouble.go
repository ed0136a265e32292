package inbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stepwell/stepwell/internal/queue"
)

// pauseAfterTrouble is how long a message rests that the broker does not take, before it is tried
// again.
const pauseAfterTrouble = time.Minute

// Trouble knows of the messages that rest, since the broker does not take them. The zero value is
// ready for use.
type Trouble struct {
	mu sync.Mutex
	// resting counts the messages that rest now; mu guards it and the fields below.
	resting int
	// last is why the newest of them rests.
	last error
	// said is when that was logged last.
	said time.Time
}

// Rest calls then after a minute, or when ctx ends; until then the message counts as one that rests
// because of err. It calls say first, unless it did so in the last minute: a whole window of
// messages may meet the same trouble at once.
func (t *Trouble) Rest(ctx context.Context, err error, say, then func()) {
	if t.begin(err) {
		say()
	}
	pause(ctx, func() {
		t.end()
		then()
	})
}

// Hold is Rest for what must not be given back: it calls then when ctx ends.
func (t *Trouble) Hold(ctx context.Context, err error, say, then func()) {
	if t.begin(err) {
		say()
	}
	context.AfterFunc(ctx, func() {
		t.end()
		then()
	})
}

func (t *Trouble) begin(err error) (first bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.resting++
	t.last = err
	if first = time.Since(t.said) >= pauseAfterTrouble; first {
		t.said = time.Now()
	}
	return first
}

func (t *Trouble) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.resting--
}

// Text says what is wrong; empty: nothing is.
func (t *Trouble) Text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.resting == 0 {
		return ""
	}
	return fmt.Sprintf("%d messages cannot be parked and wait for the next attempt, the last one because of: %v", t.resting, t.last)
}

// AsStop says whether the error of a publish comes from a stop: ctx has ended, or the broker's Run
// has.
func AsStop(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, queue.ErrClosed)
}

// pause calls then after a minute, or when ctx ends.
func pause(ctx context.Context, then func()) {
	wait, cancel := context.WithTimeout(ctx, pauseAfterTrouble)
	context.AfterFunc(wait, func() {
		cancel()
		then()
	})
}
