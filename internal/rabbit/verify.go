package rabbit

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/stepwell/stepwell/internal/queue"
)

// closeLimit is how long the queue may take to show what was given back.
const closeLimit = 10 * time.Second

// heldAcks leads a window's acks on and remembers them, since the broker confirms none.
type heldAcks struct {
	*acks
	mu   sync.Mutex
	tags map[uint64]bool
}

func newHeldAcks() *heldAcks { return &heldAcks{acks: newAcks(), tags: map[uint64]bool{}} }

// Ack notes the tag and leads it on.
func (a *heldAcks) Ack(tag uint64) {
	a.mu.Lock()
	a.tags[tag] = true
	a.mu.Unlock()
	a.acks.Ack(tag)
}

// Release leaves the message to the end of the window: given back earlier it would change the order.
func (a *heldAcks) Release(uint64) {}

func (a *heldAcks) has(tag uint64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.tags[tag]
}

func (a *heldAcks) acked() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.tags)
}

// verify waits until the queue has what was not acked. More may have arrived meanwhile, or acks may be lost with the
// broker's leader: then the messages say which.
func (w *window) verify(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, closeLimit)
	defer cancel()
	want := w.depth - w.acks.acked()
	depth, err := w.atLeast(ctx, want)
	if err != nil || depth == want || w.acks.acked() == 0 {
		return depth, err
	}
	lost, err := w.ackedAgain(ctx, depth)
	if err != nil {
		return depth, fmt.Errorf("look whether acks were taken: %w", err)
	}
	if depth, err = w.atLeast(ctx, depth); err == nil && lost > 0 {
		err = fmt.Errorf("walk of %s: %d of %d acks were not taken: these messages are there still", w.l.queue, lost, w.acks.acked())
	}
	return depth, err
}

// atLeast waits until nobody holds messages and the queue shows so many.
func (w *window) atLeast(ctx context.Context, want int) (int, error) {
	for {
		state, err := w.l.session.inspect(w.l.queue)
		switch {
		case err != nil:
			return 0, w.l.failed(err)
		case state.Consumers == 0 && state.Messages >= want:
			return state.Messages, nil
		}
		if !sleep(ctx, 10*time.Millisecond) {
			return state.Messages, fmt.Errorf("walk of %s: the queue shows %d messages, not %d or more (%d less %d acks)",
				w.l.queue, state.Messages, want, w.depth, w.acks.acked())
		}
	}
}

// ackedAgain counts the messages at the head of the queue that were acked. One that left and arrived again is not counted: it is handed
// out for the first time, was seen to arrive, or is not the same any more, as what failed again since is not.
func (w *window) ackedAgain(ctx context.Context, depth int) (count int, err error) {
	acked := map[string][]queue.Message{} // by id, which need not be unique
	for _, d := range w.deliveries {
		if w.acks.has(d.Tag) && !w.late[d.ID] {
			acked[d.ID] = append(acked[d.ID], d.Message)
		}
	}
	again := newWindow(w.l, depth, w.maxBytes)
	if err := again.start(ctx, min(len(w.deliveries), depth)); err != nil {
		return 0, err
	}
	for _, d := range again.Deliveries() {
		if d.Redelivered && slices.ContainsFunc(acked[d.ID], func(m queue.Message) bool { return reflect.DeepEqual(m.Headers, d.Headers) }) {
			count++
		}
	}
	again.stop()
	err = again.closeChannel()
	again.running.Wait()
	return count, err
}

var _ queue.Session = (*heldAcks)(nil)
