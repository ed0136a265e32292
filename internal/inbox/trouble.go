package inbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/task"
)

// pauseAfterTrouble is how long a message rests that the broker does not take, before it is tried
// again.
const pauseAfterTrouble = time.Minute

// Trouble knows of the messages that rest or are held, since the broker does not take them. The
// zero value is ready for use.
type Trouble struct {
	// SizeSetting is how users call the setting that says how large a message may be to be parked,
	// for what is told of one that is held.
	SizeSetting string

	mu sync.Mutex
	// resting counts the messages that rest now since they cannot be parked, and unread those whose
	// record cannot be read; mu guards them and the fields below.
	resting, unread counted
	// held counts those that are held now.
	held counted
	// newest is the last one that was.
	newest Held
}

// counted is how many messages there are of a kind.
type counted struct {
	now int
	// said is when the log was told last.
	said time.Time
	// last is why the newest of them is.
	last error
}

// Held is a message that is too large to be parked.
type Held struct {
	ID, Queue string
	// Bytes is about how large it came.
	Bytes int
}

// Rest calls then after a minute, or when ctx ends; until then the message counts as one that rests
// because of err. It calls say first, unless it did so in the last minute: a whole window of
// messages may meet the same trouble at once.
func (t *Trouble) Rest(ctx context.Context, err error, say, then func()) {
	t.rest(ctx, &t.resting, err, say, then)
}

// restUnread is Rest for a message whose record cannot be read.
func (t *Trouble) restUnread(ctx context.Context, err error, say, then func()) {
	t.rest(ctx, &t.unread, err, say, then)
}

func (t *Trouble) rest(ctx context.Context, of *counted, err error, say, then func()) {
	t.mu.Lock()
	of.last = err
	first := of.add()
	t.mu.Unlock()
	if first {
		say()
	}
	pause(ctx, func() {
		t.end(of)
		then()
	})
}

// Hold is Rest for what must not be given back, as no other try would help: it calls then when ctx
// ends, or over is closed: the broker has it again then, and hands it out once more.
func (t *Trouble) Hold(ctx context.Context, over <-chan struct{}, h Held, say, then func()) {
	t.mu.Lock()
	t.newest = h
	first := t.held.add()
	t.mu.Unlock()
	if first {
		say()
	}
	// This goroutine ends with the run, whose drain waits for what then releases, or the session.
	go func() {
		task.Wait(ctx, over)
		t.end(&t.held)
		then()
	}()
}

// add counts one more, and tells whether the log is to be told.
func (c *counted) add() (first bool) {
	c.now++
	if first = time.Since(c.said) >= pauseAfterTrouble; first {
		c.said = time.Now()
	}
	return first
}

func (t *Trouble) end(of *counted) {
	t.mu.Lock()
	defer t.mu.Unlock()
	of.now--
}

// Text says what is wrong; empty: nothing is.
func (t *Trouble) Text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var says []string
	if n := t.resting.now; n > 0 {
		says = append(says, fmt.Sprintf("%d messages cannot be parked and wait for the next attempt, the last one because of: %v", n, t.resting.last))
	}
	if n := t.unread.now; n > 0 {
		says = append(says, fmt.Sprintf("what %d messages point to cannot be read and is asked for again each minute, the last one because of: %v", n, t.unread.last))
	}
	if n, h := t.held.now, t.newest; n > 0 {
		says = append(says, fmt.Sprintf("%d messages are too large to be parked and are held until a stop, the last one is %s of queue %s, of %d bytes: raise %s, and what RabbitMQ takes",
			n, h.ID, h.Queue, h.Bytes, t.SizeSetting))
	}
	return strings.Join(says, ", ")
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
