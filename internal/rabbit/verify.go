package rabbit

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"sync"
	"time"

	"github.com/stepwell/stepwell/internal/queue"
)

// closeLimit is how long the queue may take to show what was given back.
const closeLimit = 10 * time.Second

// fadeTime is how long a queue that drops what is too old may take for the same.
const fadeTime = 2 * time.Second

// heldAcks leads a window's acks on and remembers them, since the broker confirms none: verify
// compares what it remembers with what the queue shows once the window is closed.
type heldAcks struct {
	*acks
	seed maphash.Seed

	// mu guards the fields below. It is not that of acks, and never held while that is taken.
	mu sync.Mutex
	// held are the messages that were handed out and not acked, by tag; bytes is their size.
	held  map[uint64]hold
	bytes int
	// left counts what came and is not acked, by fingerprint, gone what is acked. Equal messages
	// share a fingerprint: hence the counts.
	left map[uint64]int
	gone map[uint64]int
	// count is the number of acks.
	count int
}

// hold is a message that was handed out: its size and its fingerprint.
type hold struct {
	bytes int
	print uint64
}

func newHeldAcks(seed maphash.Seed) *heldAcks {
	return &heldAcks{acks: newAcks(), seed: seed, held: map[uint64]hold{}, left: map[uint64]int{}, gone: map[uint64]int{}}
}

// hold notes that the message came, and says whether it is to be handed out: not if it would be too
// much.
func (a *heldAcks) hold(d *queue.Delivery, maxBytes int) bool {
	h := hold{d.Size(), a.pass(d)}
	a.mu.Lock()
	defer a.mu.Unlock()
	// One message always fits, however large: a walk would else never get past it.
	if len(a.held) > 0 && a.bytes+h.bytes > maxBytes {
		return false
	}
	a.held[d.Tag] = h
	a.bytes += h.bytes
	return true
}

// pass notes that the message came, and returns its print.
func (a *heldAcks) pass(d *queue.Delivery) uint64 {
	a.take(d.Tag)
	print := fingerprint(a.seed, &d.Message)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.left[print]++
	return print
}

// Ack notes the tag and leads it on.
func (a *heldAcks) Ack(tag uint64) {
	a.note(tag)
	a.acks.Ack(tag)
}

func (a *heldAcks) note(tag uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	h, ok := a.held[tag]
	if !ok {
		return
	}
	delete(a.held, tag)
	a.bytes -= h.bytes
	if a.left[h.print]--; a.left[h.print] == 0 {
		delete(a.left, h.print)
	}
	a.gone[h.print]++
	a.count++
}

// Release leaves the message to the end of the window: given back earlier it would change the
// order.
func (a *heldAcks) Release(uint64) {}

func (a *heldAcks) acked() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.count
}

// fingerprint is the same for messages with the same id, headers and body. The seed is one for a
// window and the looks that verify it.
func fingerprint(seed maphash.Seed, m *queue.Message) uint64 {
	sum := maphash.String(seed, m.ID) + 3*maphash.Bytes(seed, m.Body)
	for name, value := range m.Headers { // in any order: so they are added up
		var h maphash.Hash
		h.SetSeed(seed)
		_, _ = h.WriteString(name)
		writeValue(&h, value)
		sum += h.Sum64()
	}
	return sum
}

// writeValue hashes a header's value. A list is hashed value by value: those of a record's headers
// are bytes, which take long as a text.
func writeValue(h *maphash.Hash, value any) {
	switch v := value.(type) {
	case string:
		_, _ = h.WriteString(v)
	case []byte:
		_, _ = h.Write(v)
	case []any:
		for _, one := range v {
			writeValue(h, one)
			_ = h.WriteByte(0) // where it ends
		}
	default:
		fmt.Fprint(h, v)
	}
}

// ackRounds is how often in a row acks are sent again of which the broker takes none. A busy one
// may take no more than 33 each time: what a channel of RabbitMQ 3.10 has sent on to a quorum queue
// when it waits for an answer, and its end drops the rest.
const ackRounds = 10

// verify waits until the queue has what was not acked. More may have arrived meanwhile; or acks are
// lost, with the broker's leader or with the channel, whose end drops those that the broker has not
// passed on to the queue yet. Then the messages say which, and they are acked again.
func (w *window) verify(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, closeLimit)
	defer cancel()
	acks := w.acks.acked()
	want := w.depth - acks
	depth, err := w.atLeast(ctx, want)
	before, vain := acks, 0
	for err == nil && depth != want && depth > 0 && acks > 0 {
		var lost, unsure int
		if lost, unsure, err = w.ackAgain(ctx, depth); err != nil {
			return depth, fmt.Errorf("look whether acks were taken: %w", err)
		}
		depth, err = w.atLeast(ctx, want)
		switch {
		case err != nil:
			return depth, err
		case lost == 0 && unsure > 0:
			return depth, fmt.Errorf("walk of %s: %d messages that have no id are like some that were acked: it is not known whether these are there still", w.l.queue, unsure)
		case lost == 0:
			return depth, nil
		}
		if vain++; lost < before {
			vain = 0
		}
		if before = min(before, lost); vain == ackRounds { // fewer than ever before: so it ends
			return depth, fmt.Errorf("walk of %s: %d of %d acks were not taken: these messages are there still", w.l.queue, lost, acks)
		}
	}
	return depth, err
}

// atLeast waits until nobody holds messages and the queue shows so many.
func (w *window) atLeast(ctx context.Context, want int) (int, error) {
	began := time.Now()
	for pause := time.Millisecond; ; pause = min(2*pause, 10*time.Millisecond) {
		state, err := w.l.count(ctx)
		mute := errors.Is(err, errMute)
		switch {
		case err != nil && !mute:
			return w.mostLeft(), w.l.failed(err)
		case !mute && state.Consumers == 0 && state.Messages >= want:
			return state.Messages, nil
		case !mute && state.Consumers == 0 && w.l.ttl > 0 && time.Since(began) >= fadeTime:
			return state.Messages, nil // some became too old while they were held
		}
		if !sleep(ctx, pause) {
			if mute {
				return w.mostLeft(), w.l.failed(err)
			}
			return state.Messages, fmt.Errorf("walk of %s: the queue shows %d messages, not %d or more (%d less %d acks)",
				w.l.queue, state.Messages, want, w.depth, w.acks.acked())
		}
	}
}

// ackAgain acks the messages at the head of the queue that were acked before, and says how many.
// One that left and arrived again is not among them: it is handed out for the first time, or was
// seen to arrive, or is not the same any more, as what failed again since is not. The head is
// enough: the broker had no more than a prefetch of messages out.
//
// Messages that have no id may be many that are the same, of which some were on their way when the
// window was closed. None of them is acked again: how many may have to be is unsure.
func (w *window) ackAgain(ctx context.Context, depth int) (lost, unsure int, err error) {
	again := newWindow(w.l, depth, math.MaxInt, w.acks.seed)
	again.bare = true
	if err := again.start(min(windowPrefetch, depth)); err != nil {
		return 0, 0, err
	}
	all, err := queue.Gather(ctx, again)
	extra := map[uint64]int{} // how many of a print should not be there
	for _, d := range all {
		extra[again.acks.held[d.Tag].print]++
	}
	// Of the messages with one fingerprint, as many may stay as were not acked; beyond that, no
	// more can be lost acks than there were acks.
	for print := range extra {
		extra[print] = min(extra[print]-w.acks.left[print], w.acks.gone[print])
	}
	for _, d := range all { // of those that are the same, the oldest were acked
		if print := again.acks.held[d.Tag].print; d.Redelivered && extra[print] > 0 {
			extra[print]--
			if d.ID == "" {
				unsure++
				continue
			}
			d.Ack()
			lost++
		}
	}
	ended := again.end()
	return lost, unsure, errors.Join(err, again.lost, ended)
}

// Flush leaves it to the window's end.
func (a *heldAcks) Flush(context.Context) error { return nil }

var _ queue.Session = (*heldAcks)(nil)
