package rabbit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/stepwell/stepwell/internal/queue"
)

const (
	// windowPrefetch never changes: what a walk returns is handed out before what is fresh, so a
	// walk with a smaller prefetch than an earlier one would see another part of the queue. Only
	// one that is narrow has a smaller one: it removes what it sees.
	windowPrefetch = queue.WindowSize
	// windowIdle is how often a window asks whether there is more, once nothing has come for as
	// long.
	windowIdle = 250 * time.Millisecond
	// windowLooks is how often in a row the queue must look empty before a window that was
	// promised more believes it: a look goes over another channel, and may overtake what the broker
	// has just sent.
	windowLooks = 8
	// windowSilence is for how long nothing may come of what was promised, also where nobody can
	// tell whether it is there.
	windowSilence = 10 * time.Second
)

// window holds the oldest messages on a channel of its own, until that is closed.
type window struct {
	// The lease whose connection this is, and whose open is set meanwhile.
	l *lease
	// ch is nil where the queue was empty: there is nothing to close.
	ch *amqp.Channel
	// closed has why the channel was closed, where the broker did that.
	closed <-chan *amqp.Error
	// depth is that of the queue as the window was opened, when nobody held messages.
	depth    int
	prefetch int
	// maxBytes bounds the bodies and headers that are held at a time, but for one message.
	maxBytes int
	// bare: bodies are not handed out, for a look that needs only fingerprints.
	bare bool
	acks *heldAcks

	// deliveries has room for all that the broker hands out without acks, so that read never waits
	// for the caller.
	deliveries chan queue.Delivery
	// lost is why the broker ended the window. The reader writes it; end waits for the reader, so
	// that Close may read it after that.
	lost error
	// last is the newest tag that came; it is read and written as lost is.
	last uint64

	// stop ends the sender; the reader ends with the channel.
	stop   context.CancelFunc
	sender sync.WaitGroup
	reader sync.WaitGroup
}

// Window holds the oldest messages; see queue.Lease.
func (l *lease) Window(ctx context.Context, most, maxBytes int) (queue.Window, error) {
	return l.Narrow(ctx, most, windowPrefetch, maxBytes)
}

// Narrow is a window that holds few; see queue.Lease.
func (l *lease) Narrow(ctx context.Context, most, few, maxBytes int) (queue.Window, error) {
	if most < 1 {
		return nil, fmt.Errorf("walk of %s: a window of %d messages: it takes 1 or more", l.queue, most)
	}
	// Held until the window is open, which may take LeaseWait: two at a time would see each other
	// as consumers.
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open {
		return nil, fmt.Errorf("walk of %s: the window before is open", l.queue)
	}
	depth, err := l.settled(ctx)
	if err != nil {
		return nil, err
	}
	// Who walks has to know how many returns the queue bears; see ReturnLimit.
	l.b.topology.compareDeadSet(l.session, queue.Spec{Name: l.queue, Kind: queue.DeadSet, TTL: l.ttl})
	// Where it bears few, what came back too often has to be published anew, which an alarm keeps
	// from being confirmed: each window would bring the messages back once more, until one is
	// dropped.
	if !l.b.topology.isCompared(l.queue) {
		if err := l.b.Accepts(ctx); err != nil {
			return nil, err
		}
	}
	w := newWindow(l, depth, maxBytes, maphash.MakeSeed())
	w.prefetch = few
	if err := w.start(min(most, depth)); err != nil {
		return nil, err
	}
	l.open = true
	return w, nil
}

func newWindow(l *lease, depth, maxBytes int, seed maphash.Seed) *window {
	return &window{
		l: l, depth: depth, prefetch: windowPrefetch, maxBytes: maxBytes, acks: newHeldAcks(seed), stop: func() {},
		deliveries: make(chan queue.Delivery, windowPrefetch),
	}
}

// start hands out the oldest messages, so many.
func (w *window) start(most int) error {
	if most == 0 {
		w.finish(nil)
		return nil
	}
	deliveries, err := w.consume()
	if err != nil {
		return w.l.failed(err)
	}
	var ctx context.Context
	ctx, w.stop = context.WithCancel(w.l.session.ctx)
	w.reader.Go(func() { w.read(ctx, deliveries, most, w.emptied) })
	w.sender.Go(func() { w.send(ctx) })
	return nil
}

func (w *window) consume() (deliveries <-chan amqp.Delivery, err error) {
	s := w.l.session
	if w.ch, err = s.channel(); err != nil {
		return nil, err
	}
	w.closed = w.ch.NotifyClose(make(chan *amqp.Error, 1))
	err = s.call("set prefetch", func() error { return w.ch.Qos(w.prefetch, 0, false) })
	if err != nil {
		return nil, err
	}
	err = s.call("consume", func() error {
		deliveries, err = w.ch.Consume(w.l.queue, "walk", false, false, false, false, nil)
		return err
	})
	return deliveries, err
}

// finish says that no more is handed out. It is called once: by the reader, or by start where the
// queue is empty.
func (w *window) finish(lost error) {
	w.lost = lost
	close(w.deliveries)
}

var (
	errWindowLost = errors.New("the broker ended the walk's consumer")
	// errWindowShort: who acts on what a window shows must not take it for all that there is.
	errWindowShort = fmt.Errorf("%w: the broker did not hand out all that was there", queue.ErrUnavailable)
)

// read hands out the oldest messages, so many (left) and held bytes as fit. The rest it lets go as
// it comes: that stays unacked and goes back with the channel.
func (w *window) read(ctx context.Context, deliveries <-chan amqp.Delivery, left int, emptied func() (bool, error)) {
	idle := time.NewTicker(windowIdle)
	defer idle.Stop()
	for quiet, looks := 0, 0; left > 0; {
		select {
		case d, ok := <-deliveries:
			if !ok {
				w.finish(unless(ctx, errWindowLost))
				return
			}
			quiet, looks = 0, 0
			if !w.hand(&d) {
				w.finish(nil)
				w.discard(deliveries)
				return
			}
			left--
		case <-idle.C:
			if quiet++; w.acks.outstanding() >= w.prefetch { // the caller's silence, not the queue's
				quiet = 0
			}
			if quiet < 2 {
				continue
			}
			empty, err := emptied()
			if looks++; !empty {
				looks = 0
			}
			if err != nil || looks == windowLooks || quiet == int(windowSilence/windowIdle) {
				if short := errWindowShort; w.l.ttl == 0 || looks < windowLooks { // else the others became too old
					err = cmp.Or(err, short)
				}
				w.finish(err)
				w.discard(deliveries)
				return
			}
		}
	}
	w.finish(nil)
	w.discard(deliveries)
}

// emptied says that the queue, which was promised to have more, has nothing to hand out: somebody
// purged it, or a limit of its owner's dropped messages.
func (w *window) emptied() (bool, error) {
	state, err := w.l.session.count(w.l.queue)
	if errors.Is(err, errMute) {
		return false, nil
	}
	// An answer that does not know of this walk's consumer is not the queue's own; see lease.count.
	return err == nil && state.Messages == 0 && state.Consumers > 0, err
}

// unless is err, but nil where the walk has ended.
func unless(ended context.Context, err error) error {
	if ended.Err() != nil {
		return nil
	}
	return err
}

// hand hands a message out if it fits.
func (w *window) hand(d *amqp.Delivery) bool {
	w.last = d.DeliveryTag
	one := decode(d, w.l.queue, w.acks)
	if !w.acks.hold(&one, w.maxBytes) {
		return false
	}
	if w.bare {
		one.Body = nil
	}
	w.deliveries <- one
	return true
}

// discard reads on until the channel is closed, without handing out. Fingerprints and tags are
// noted all the same: verify has to know all that was out, also what nobody saw.
func (w *window) discard(deliveries <-chan amqp.Delivery) {
	for d := range deliveries {
		w.last = d.DeliveryTag
		one := decode(&d, w.l.queue, w.acks)
		w.acks.pass(&one)
	}
}

// send sends acks as they come, so that a crash leaves few messages in two places.
func (w *window) send(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.acks.wake:
			if !sleep(ctx, ackDelay) || w.tell() != nil {
				return
			}
		}
	}
}

// tell sends the acks that there are.
func (w *window) tell() error {
	words, _, _ := w.acks.plan(true)
	return tell(w.ch, words)
}

// Deliveries hands out the messages; see queue.Window.
func (w *window) Deliveries() <-chan queue.Delivery { return w.deliveries }

// Depth returns how many messages were in the queue when the window was opened.
func (w *window) Depth() int { return w.depth }

// Close sends the acks and gives back the rest by closing the channel. It never cancels the
// consumer first: that would change the order. Acks have no confirm, so it waits until the queue
// shows what it must.
func (w *window) Close(ctx context.Context) (int, error) {
	defer func() {
		w.l.mu.Lock()
		w.l.open = false
		w.l.mu.Unlock()
	}()
	if w.ch == nil {
		return w.depth, nil
	}
	err := w.end()
	switch {
	case err != nil:
		return w.mostLeft(), w.l.failed(fmt.Errorf("it is not known whether all of %d acks were taken: %w", w.acks.acked(), err))
	case w.lost != nil:
		depth, err := w.verify(ctx)
		return depth, errors.Join(w.l.failed(w.lost), err)
	}
	return w.verify(ctx)
}

// mostLeft is how many messages there may still be: the broker hands out no more than the prefetch
// beyond the acks it has taken.
func (w *window) mostLeft() int {
	taken := min(int(w.last)-w.prefetch, w.acks.acked()) //nolint:gosec // tags count deliveries
	return w.depth - max(0, taken)
}

// end sends the last acks and closes the channel.
func (w *window) end() error {
	w.stop()
	w.sender.Wait() // an ack of its would follow one of ours that says "all before": twice acked ends the channel
	err := w.tell()
	if err == nil {
		err = w.l.session.closeChannel(w.ch)
	}
	w.reader.Wait()
	if err == nil {
		return nil
	}
	// Whoever uses a channel that the broker has closed is told only that it is not open.
	select {
	case why := <-w.closed:
		if why != nil {
			return fmt.Errorf("%w, since the channel was closed: %w", err, why)
		}
	default:
	}
	return err
}
