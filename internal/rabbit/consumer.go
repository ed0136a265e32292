package rabbit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/stepwell/stepwell/internal/queue"
)

// consumer consumes a queue on one channel, until the channel ends. The goroutine of Consume opens
// the consumer on the broker and hands deliveries out; the keeper's sends acks and looks after
// pause, prefetch and loss. Acks come from any goroutine.
type consumer struct {
	b       *Broker
	c       queue.Consumption
	stop    context.Context
	session *session
	ch      *amqp.Channel
	acks    *acks
	// closed and lost are the library's notices: the channel ended, and the broker cancelled the
	// consumer.
	closed chan *amqp.Error
	lost   chan string
	// ctx is the life of the channel; whoever finds that it is over calls end with the reason.
	ctx context.Context
	end context.CancelCauseFunc
	// queue says which of the queues of that name is consumed; see topology.creations.
	queue int
	// subscribed is set while the broker may send something.
	subscribed atomic.Bool
	loss       loss
	toldAt     time.Time // when words were told last; who calls flush sets it
	// again is readable when the prefetch is to be changed: the keeper asks, Consume's goroutine
	// does it.
	again chan struct{}
	// resumed is readable when the pause may be over.
	resumed chan struct{}

	// rpc is held while the broker is asked something on the channel: answers carry no number, and
	// two goroutines that ask at a time may get each other's.
	rpc sync.Mutex

	// mu guards the fields below.
	mu     sync.Mutex
	credit credit
	// hand ends the handing out; nil while nothing is handed out.
	hand context.CancelFunc
}

var (
	errConsumerLost   = errors.New("the broker ended the consumer: its time-out passed, or the queue is gone")
	errConsumerForgot = errors.New("the queue was declared anew, and the broker forgot its consumer")
)

// Consume hands out the queue's messages until stop ends; see queue.Broker.
func (b *Broker) Consume(stop, work context.Context, c queue.Consumption) error {
	// Only stop and the end of Run end this loop: whatever happens to a channel, a queue or a
	// connection, consuming begins again.
	wait := b.config.backoff()
	var anew renewal
	part := consumerOf(c.Queue)
	defer b.trouble.forget(part)
	apart, before := c.Foreign, error(nil)
	for stop.Err() == nil {
		s, err := b.session(stop)
		if errors.Is(err, queue.ErrClosed) {
			return fmt.Errorf("consume %s: %w", c.Queue, err)
		}
		if err != nil {
			break
		}
		since, c := time.Now(), carefully(c, before)
		err = consumeIn(stop, work, b, apart, s, c, &anew)
		before, apart = err, isApart(c, apart, err)
		if stop.Err() != nil {
			break
		}
		if err == nil { // it was only to be opened anew
			continue
		}
		if errors.Is(err, errConsumerLost) {
			b.awaitGone(stop, s, c.Queue)
		}
		if code(err) == amqp.NotFound || errors.Is(err, errConsumerLost) || errors.Is(err, errConsumerForgot) {
			// The queue may be gone. Only a declaration can tell, and makes it again.
			b.topology.missing(c.Queue)
		}
		if s.alive() {
			b.trouble.set(part, fmt.Sprintf("consume %s: %v", c.Queue, err))
		}
		if time.Since(since) > 5*time.Second {
			wait.reset()
		}
		sleep(stop, wait.next())
	}
	return nil
}

// awaitGone waits a moment for a queue that is perhaps being deleted. The broker tells consumers
// first; who looks in between finds the queue, and then declares a new one without knowing it.
func (b *Broker) awaitGone(stop context.Context, s *session, name string) {
	const looks, pause = 10, 50 * time.Millisecond
	for range looks {
		if _, err := s.inspect(name); err != nil || !sleep(stop, pause) {
			return
		}
	}
}

// consumeOn consumes on a channel of its own until stop ends or the channel does; nil without a
// stop asks for the next channel.
func (b *Broker) consumeOn(stop, work context.Context, s *session, c queue.Consumption, anew *renewal) error {
	ch, err := s.channel()
	if err != nil {
		return err
	}
	k := b.newConsumer(stop, s, ch, c, anew)
	// The keeper outlives stop: what is being handled is acked in the drain.
	keep, release := context.WithCancel(context.Background())
	var keeper sync.WaitGroup
	keeper.Go(func() { k.keep(keep) })
	// The order: nothing more is handed out, then all that was is settled, then the keeper ends,
	// and then finish is alone with the acks.
	err = k.run()
	if err == nil && k.ctx.Err() == nil {
		k.drain(work)
	}
	release()
	keeper.Wait()
	return k.finish(err)
}

// newConsumer makes a consumer on a channel; nothing is asked of the broker yet.
func (b *Broker) newConsumer(stop context.Context, s *session, ch *amqp.Channel, c queue.Consumption, anew *renewal) *consumer {
	k := &consumer{
		b: b, c: c, stop: stop, session: s, ch: ch, acks: newAcks(),
		closed: ch.NotifyClose(make(chan *amqp.Error, 1)), lost: ch.NotifyCancel(make(chan string, 4)),
		// Read before the consumer exists: a queue that is made anew from here on is noticed by the
		// keeper.
		queue: b.topology.creations(c.Queue),
		loss:  loss{renewal: anew}, again: make(chan struct{}, 1), resumed: make(chan struct{}, 1),
	}
	k.ctx, k.end = context.WithCancelCause(s.ctx)
	k.acks.leaving, k.acks.stop = k.leaving, stop
	return k
}

// finish sends the last acks and closes the channel, which gives back the rest. What is acked later
// is dropped: its tag means nothing on the next channel.
func (k *consumer) finish(err error) error {
	if cause := context.Cause(k.ctx); cause != nil && err == nil {
		err = cause
	}
	k.subscribed.Store(false) // also where it could not be opened, or cancelled
	if k.session.alive() && !k.ch.IsClosed() {
		k.flush(true)
		k.acks.letGo()
		k.flush(true)
		k.rest()
		_ = k.session.closeChannel(k.ch)
	}
	k.acks.die()
	k.end(err)
	return err
}

// run opens the consumer, and again after each pause and change of the prefetch, until stop or the
// channel ends, or the channel is to be replaced.
func (k *consumer) run() error {
	for k.stop.Err() == nil && k.ctx.Err() == nil {
		// A consumer that was handed something meanwhile is not deaf, and a channel with a message
		// in hand is kept: the next one would wait for its handler.
		if k.loss.replace.Swap(false) && k.acks.outstanding() == 0 {
			return nil
		}
		if k.paused() {
			select {
			case <-k.resumed:
			case <-k.stop.Done():
			case <-k.ctx.Done():
			}
			continue
		}
		deliveries, tag, err := k.subscribe()
		if err != nil {
			return err
		}
		k.b.trouble.clear(consumerOf(k.c.Queue))
		if err := k.handOut(deliveries, tag); err != nil {
			return err
		}
	}
	return nil
}

func (k *consumer) paused() bool { return k.c.Paused != nil && k.c.Paused() }

// wantedPrefetch is what the owner wants to have ahead, within what AMQP can say. 0 would mean no
// limit: the broker would send the whole queue.
func (k *consumer) wantedPrefetch() int {
	if k.c.Prefetch == nil {
		return 1
	}
	return min(max(k.c.Prefetch(), 1), 65535)
}

// subscribe sets the prefetch and opens a consumer with it. A changed prefetch counts only for
// consumers that are opened after it, which is why each change needs a new one.
func (k *consumer) subscribe() (deliveries <-chan amqp.Delivery, tag string, err error) {
	// Its owner may have made it anew as a stream since the last consumer.
	if k.c.Foreign {
		if err := k.session.examine(k.c.Queue); err != nil {
			return nil, "", err
		}
	}
	n := k.wantedPrefetch()
	k.mu.Lock()
	before := k.credit.prefetch
	k.credit = credit{prefetch: n, first: k.acks.next()}
	k.mu.Unlock()
	// A channel that had a consumer may have messages in hand, and is not given up.
	if before == 0 && k.session.isMute(k.c.Queue) {
		return nil, "", errMute
	}
	if k.c.Told != nil {
		k.c.Told(n)
	}
	k.rpc.Lock()
	defer k.rpc.Unlock()
	k.acks.gather(batch(n))
	tag = fmt.Sprintf("%s-%d", k.b.config.ConnectionName, time.Now().UnixNano())
	err = k.session.call("set prefetch", func() error { return k.ch.Qos(n, 0, false) })
	if err != nil {
		return nil, "", err
	}
	k.subscribed.Store(true)
	err = k.session.call("open consumer", func() error {
		deliveries, err = k.ch.Consume(k.c.Queue, tag, false, false, false, false, nil)
		return err
	})
	return deliveries, tag, notOpened(err)
}

// handOut hands out deliveries until stop, pause, a new prefetch or the end of the channel. Before
// it returns, nothing more can come from this consumer.
func (k *consumer) handOut(deliveries <-chan amqp.Delivery, tag string) error {
	ctx, cancel := context.WithCancel(k.stop)
	defer cancel()
	defer context.AfterFunc(k.ctx, cancel)()
	k.setHand(cancel)
	defer k.setHand(nil)
	defer k.subscribed.Store(false)
	cancelled := false
	for {
		again := k.again
		if cancelled {
			again = nil
		}
		select {
		case <-ctx.Done():
			return k.giveBack(ctx, deliveries, tag, cancelled)
		// After the cancel the broker sends nothing more, and closes deliveries once those that
		// were sent are through.
		case <-again: // the deliveries that are here already are handed out still
			if k.session.isMute(k.c.Queue) {
				continue // the keeper asks again
			}
			if err := k.unsubscribe(tag); err != nil {
				return err
			}
			cancelled = true
		case d, ok := <-deliveries:
			if !ok {
				return nil
			}
			k.take(ctx, &d)
		}
	}
}

// take hands one delivery to the owner. The tag is noted before, since the ack may come from
// another goroutine before Handle returns; a delivery that the owner did not take goes back to the
// queue.
func (k *consumer) take(ctx context.Context, d *amqp.Delivery) {
	k.acks.take(d.DeliveryTag)
	k.loss.came.Add(1)
	k.loss.busy.Store(true)
	defer k.loss.busy.Store(false)
	if !k.c.Handle(ctx, k.decode(d)) {
		k.acks.Release(d.DeliveryTag)
	}
}

// decode makes what is handed out of what came.
func (k *consumer) decode(d *amqp.Delivery) queue.Delivery {
	var m queue.Delivery
	if k.c.Foreign {
		m = decodeForeign(d, k.c.Queue, k.acks)
	} else { // called by their names, so that d need not be on the heap
		m = decode(d, k.c.Queue, k.acks)
	}
	m.Life = k.ctx
	return m
}

// setHand publishes how to end the handing out; nil: there is none.
func (k *consumer) setHand(cancel context.CancelFunc) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.hand = cancel
	// A pause that began after run looked found no hand to call, and may not be signalled again.
	if cancel != nil && k.paused() {
		cancel()
	}
}

func (k *consumer) unsubscribe(tag string) error {
	k.rpc.Lock()
	defer k.rpc.Unlock()
	return k.session.call("cancel consumer", func() error { return k.ch.Cancel(tag, false) })
}

// giveBack cancels the consumer and releases what it had sent ahead, but for what the owner takes
// though ctx has ended.
func (k *consumer) giveBack(ctx context.Context, deliveries <-chan amqp.Delivery, tag string, cancelled bool) error {
	if k.ctx.Err() != nil {
		return nil
	}
	if !cancelled {
		if err := k.unsubscribe(tag); err != nil {
			return err
		}
	}
	// The library closes deliveries when the cancel is answered.
	for d := range deliveries {
		k.take(ctx, &d)
	}
	return nil
}
