package actor

import (
	"context"
	"errors"
	"hash/maphash"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/crew"
	"github.com/stepwell/stepwell/internal/failpoint"
	"github.com/stepwell/stepwell/internal/seats"
	"github.com/stepwell/stepwell/internal/task"
	"github.com/stepwell/stepwell/streams"
)

// A stream with a Batch gathers its messages above the crew:
//
//	batches.gather   the source's handle: puts a message into its lane; it counts as under way;
//	                 batches.gatherAll does that for many at once
//	lane.await       until a batch is due: it is full, or has waited, or is not to wait
//	caller.run       takes a seat, then the batch, so that it is as full as can be
//	caller.call      calls the handler
//	caller.settle    tells each partition what became of its messages, all at once
//
// What failed is first tried again in place, as far as that is set: caller.until. Then it goes
// through the queues one by one, and comes back as batches of one: dispatch.fromQueue.

// batches gathers a stream's messages and calls its batch handler.
type batches struct {
	dispatch *dispatch
	size     int
	// order decides which lane a message waits in.
	order streams.Order
	seed  maphash.Seed
	// lanes have the messages that wait. Those that must be called in their order are in the same.
	lanes   []*lane
	callers []*caller
	seats   *seats.Side

	// failed has the errors of handlers that ended their goroutines; there is room for one of each
	// caller.
	failed chan error

	mu sync.Mutex
	// kick is closed, and made anew, when those who rest are to look again; mu guards it.
	kick chan struct{}
}

// batchConfig says how a stream's messages are gathered.
type batchConfig struct {
	size   int           // messages of a batch at most
	wait   time.Duration // how long the first of them waits at most
	atOnce int           // batches at once
	order  streams.Order
	seats  *seats.Side
}

func newBatches(d *dispatch, cfg batchConfig) *batches {
	b := &batches{
		dispatch: d, size: cfg.size, order: cfg.order, seed: maphash.MakeSeed(), seats: cfg.seats,
		failed: make(chan error, cfg.atOnce), kick: make(chan struct{}),
	}
	lanes := cfg.atOnce
	if cfg.order == streams.OrderNone {
		lanes = 1 // that all take from
	}
	for range lanes {
		b.lanes = append(b.lanes, newLane(cfg.size, cfg.wait, cfg.atOnce/lanes))
	}
	for i := range cfg.atOnce {
		b.callers = append(b.callers, &caller{batches: b, lane: b.lanes[i%lanes], number: i})
	}
	return b
}

// gather is the handle of the stream's source.
func (b *batches) gather(_ context.Context, m *stepwell.Message, t task.Ticket) task.Outcome {
	of, offset := t.Place()
	_, came := t.Running()
	b.laneOf(m).put(of, came, t.Alone(), crew.Entry{Message: m, Offset: offset})
	b.gathered(of)
	return task.Gathered
}

// gatherAll is gather for messages that come together, none of them alone.
func (b *batches) gatherAll(of task.Gatherable, messages []crew.Entry) {
	came := time.Now()
	for l := b.laneOf(messages[0].Message); len(messages) > 0; {
		n, next := 1, l
		for ; n < len(messages); n++ {
			if next = b.laneOf(messages[n].Message); next != l {
				break
			}
		}
		l.put(of, came, false, messages[:n]...)
		l, messages = next, messages[n:]
	}
	b.gathered(of)
}

// gathered wakes the callers that rest if the messages were halted meanwhile, so that these do not
// wait; [lane.put] has woken the others.
func (b *batches) gathered(of task.Gatherable) {
	failpoint.Hit("gathered")
	if of.Halted() {
		b.wake()
	}
}

// laneOf is where a message waits: with all others of its key, or its partition. What has no order
// goes where its neighbours went, so that batches fill.
func (b *batches) laneOf(m *stepwell.Message) *lane {
	if len(b.lanes) == 1 {
		return b.lanes[0]
	}
	var hash uint64
	switch {
	case b.order == streams.OrderPartition:
		hash = maphash.String(b.seed, m.Origin.Topic) + uint64(m.Origin.Partition)
	case m.Key != nil:
		hash = maphash.Bytes(b.seed, m.Key)
	default:
		hash = uint64(m.Origin.Partition) + uint64(m.Origin.Offset)/uint64(b.size)
	}
	return b.lanes[hash%uint64(len(b.lanes))]
}

// Flush has what was gathered be called without waiting for more.
func (b *batches) Flush() {
	for _, l := range b.lanes {
		l.hurry()
	}
	b.wake()
}

// Fetched gives what has waited for long memory of its own.
func (b *batches) Fetched(eighths uint32) {
	for _, l := range b.lanes {
		l.own(eighths)
	}
}

// held is how many messages wait for batches that rest.
func (b *batches) held() (n int) {
	for _, l := range b.lanes {
		n += l.held()
	}
	return n
}

// wake has who rests look again.
func (b *batches) wake() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.kick)
	b.kick = make(chan struct{})
}

// kicked is closed by the next wake.
func (b *batches) kicked() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.kick
}

// Pause has nothing be called. What is under way goes on.
func (b *batches) Pause() { b.setPaused(true) }

// Resume ends a pause.
func (b *batches) Resume() { b.setPaused(false) }

func (b *batches) setPaused(paused bool) {
	for _, l := range b.lanes {
		l.setPaused(paused)
	}
	b.wake()
}

// run calls batches while read does, whose messages are gathered. It returns when both are over; a
// handler that does not return though its context has ended with work is not waited for. One that
// ends its goroutine ends read, and is an error.
func (b *batches) run(stop, work context.Context, read func(stop, work context.Context) error) error {
	stop, end := context.WithCancel(stop)
	defer end()
	// The context of handlers ends with work, and its cause says that it was a shutdown, or what
	// else.
	calls, cancel := context.WithCancelCause(context.WithoutCancel(work))
	defer cancel(nil)
	defer context.AfterFunc(work, func() { cancel(causeOf(work)) })()
	over, gone := make(chan struct{}), make(chan struct{})
	var callers sync.WaitGroup
	for _, c := range b.callers {
		callers.Go(func() { c.run(calls, over, end) })
	}
	err := read(stop, work)
	// Reading is over, so that nothing more is gathered: callers end once they have no batch.
	close(over)
	go func() {
		callers.Wait()
		close(gone)
	}()
	if !awaitGone(calls, gone) && err == nil {
		err = errors.New("a batch did not return though it was cancelled")
	}
	select {
	case failed := <-b.failed:
		err = errors.Join(failed, err)
	default:
	}
	return err
}

// causeOf is the cause with which the context of handlers ends.
func causeOf(work context.Context) error {
	if cause := context.Cause(work); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return streams.ErrShutdown
}

// awaitGone reports whether gone was closed before the context of calls had been over for a moment.
func awaitGone(calls context.Context, gone <-chan struct{}) bool {
	select {
	case <-gone:
		return true
	case <-calls.Done():
	}
	const grace = time.Second
	select {
	case <-gone:
		return true
	case <-time.After(grace):
		return false
	}
}
