package rabbit

import (
	"context"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/stepwell/stepwell/internal/failpoint"
)

const (
	// ackDelay is how long an ack waits for others to go with it. A crash within it repeats the
	// message. An ack that cannot go with others now waits on while acks come in batches.
	ackDelay = 10 * time.Millisecond
	// ackBatch is how many acks do not wait.
	ackBatch = 100
	// pauseInterval is how often Consumption.Paused is asked where nobody signals Changed, and how
	// often a prefetch may become larger.
	pauseInterval = time.Second
	// prefetchEvery is how often a prefetch may become smaller, and a loss of the consumer is
	// looked for.
	prefetchEvery = 5 * time.Second
	// restTime is what a quorum queue needs to apply what it was told. RabbitMQ's channel keeps to
	// itself what comes while the queue has 32 commands to apply, and drops that when it is closed.
	// Nothing tells when the queue has them, also no answer to a method.
	restTime = 200 * time.Millisecond
	// returnsWait is how long what a stop gives back waits for the acks of the calls that it lets
	// end: less where these end before.
	returnsWait = time.Second
)

// credit is what the broker was last told to hand out without an ack, and since when.
type credit struct {
	// prefetch is how many deliveries; 0 before the first consumer.
	prefetch int
	// first is the tag of the first of them. What earlier consumers of the channel hold does not
	// count.
	first uint64
	// usedUp counts the looks in a row that found all of it held, and another wanted.
	usedUp int
}

// keep looks after the channel until ctx ends: it sends acks, and ends the consumer's life when the
// broker does.
func (k *consumer) keep(ctx context.Context) {
	pause := time.NewTicker(pauseInterval)
	defer pause.Stop()
	prefetch := time.NewTicker(prefetchEvery)
	defer prefetch.Stop()
	// flush is nil while no ack waits, and a nil channel is never ready.
	var flush <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.ctx.Done():
			return
		case err := <-k.closed:
			// A close that we asked for closes the channel without an error.
			if err != nil {
				k.end(fmt.Errorf("channel closed: %w", err))
			} else {
				k.end(errSessionOver)
			}
		case _, ok := <-k.lost:
			// Not ok: the AMQP channel was closed, which k.closed tells; a closed Go channel would
			// keep the loop busy.
			if ok {
				k.end(fmt.Errorf("%w; the time-out should be %s", errConsumerLost, k.b.config.ConsumerTimeout))
			} else {
				k.lost = nil
			}
		case <-k.acks.wake:
			flush = k.acksCame(flush)
		case <-flush:
			if flush = nil; k.flush(true) > 0 { // the consumer is to be cancelled first
				flush = time.After(ackDelay)
			}
		case <-k.c.Changed:
			k.lookAtPause()
		case <-pause.C:
			k.lookAtPause()
			k.grow()
			askForAnother(k)
			// The consumer is bound to a queue that is gone, and the broker may never say so.
			if k.b.topology.creations(k.c.Queue) != k.queue {
				k.end(errConsumerForgot)
			}
		case <-prefetch.C:
			k.lookAfter()
		}
	}
}

// acksCame sends the acks that do not wait for others, and returns when those are sent that do:
// flush, if they wait already.
func (k *consumer) acksCame(flush <-chan time.Time) <-chan time.Time {
	if k.acks.urgent() {
		k.grow()
		if k.flush(false) == 0 {
			return nil
		}
		flush = nil // of acks that went now
	}
	if flush == nil {
		flush = time.After(ackDelay)
	}
	return flush
}

// leaving says that a stop or a pause has begun, and the consumer is not cancelled yet: what would
// be given back now would come once more, and count one more return.
func (k *consumer) leaving() bool {
	return k.subscribed.Load() && (k.stop.Err() != nil || k.paused())
}

// ask has the channel answer, which it does after it has taken what was sent before, and passed it
// on to the queue, but for what restTime is about.
func (k *consumer) ask() error {
	k.rpc.Lock()
	defer k.rpc.Unlock()
	// The prefetch it has already: a question that changes nothing. The broker handles the methods
	// of one channel in order.
	return k.session.call("flush acks", func() error { return k.ch.Qos(k.limit(), 0, false) })
}

// batch says, of a prefetch, how many acks are sent without waiting for ackDelay: a hundred, or a
// quarter of it if that is less. And how many may stay unsent because a delivery before them is not
// settled yet, which would cost a frame each: all but two batches, since the broker sends nothing
// more once the prefetch is used up. One of these is what is settled until the next plan, the other
// is room for what is held.
func batch(prefetch int) (enough, most int) {
	enough = max(1, min(ackBatch, prefetch/4))
	return enough, max(0, prefetch-2*enough)
}

// limit is the prefetch as the broker knows it; 1 before the first consumer.
func (k *consumer) limit() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return max(1, k.credit.prefetch)
}

// flush tells the broker what was settled, all of it or what goes together, and returns how much
// is left; the channel's life ends where that is not possible. The keeper calls it, and finish once
// the keeper has ended, never two goroutines at a time.
func (k *consumer) flush(all bool) (left int) {
	words, asked, left := k.acks.plan(all)
	var err error
	if len(words) > 0 {
		failpoint.Hit("ack")
		err = tell(k.ch, words)
		k.session.written()
		failpoint.Hit("acked")
		k.toldAt = time.Now()
	}
	if err == nil && len(asked) > 0 {
		err = k.ask()
	}
	for _, done := range asked {
		done <- err
	}
	if err != nil {
		k.end(err)
	}
	return left
}

// drain waits until all that was handed out is settled, or work or the channel ends.
func (k *consumer) drain(work context.Context) {
	defer time.AfterFunc(returnsWait, k.acks.letGo).Stop()
	for k.acks.outstanding() > 0 {
		select {
		case <-k.acks.quiet:
		case <-work.Done():
			return
		case <-k.ctx.Done():
			return
		}
	}
}

// rest lets the queue have what it was told last, before the channel is closed: else the acks of
// finished calls are dropped, and they run again.
func (k *consumer) rest() { sleep(k.ctx, time.Until(k.toldAt.Add(restTime))) }

// tell sends the words in order. After an error it is not known which of them the broker took.
func tell(ch *amqp.Channel, words []word) error {
	for _, w := range words {
		var err error
		if w.requeue {
			err = ch.Nack(w.tag, false, true)
		} else {
			err = ch.Ack(w.tag, w.multiple)
		}
		if err != nil {
			return fmt.Errorf("send ack: %w", err)
		}
	}
	return nil
}

// lookAtPause ends the handing out when there is a pause, and lets it begin again when there is
// none. The goroutine of Consume then gives back what was prefetched.
func (k *consumer) lookAtPause() {
	if !k.paused() {
		signal(k.resumed)
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.hand != nil {
		k.hand()
	}
}

// grow asks for a new consumer once more than twice as much may be fetched ahead, as after the
// first calls of a fast handler. It comes each second, and with each batch of acks: too small a
// prefetch costs throughput at once, too large a one only memory, which lookAfter may correct
// later.
func (k *consumer) grow() {
	want := k.wantedPrefetch()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.credit.prefetch > 0 && want > 2*k.credit.prefetch {
		signal(k.again)
	}
}

// askForAnother asks for a new consumer, which has a prefetch of its own, once two looks in a row
// find that all of the last one's is held, and that its owner wants another: what rests, or waits
// for a confirm, would keep all others from it.
func askForAnother(k *consumer) {
	if k.c.Another == nil || !k.subscribed.Load() {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	c := &k.credit
	if k.acks.heldFrom(c.first) < c.prefetch || !k.c.Another(k.acks.outstanding()) {
		c.usedUp = 0
		return
	}
	if c.usedUp++; c.usedUp > 1 {
		c.usedUp = 0
		signal(k.again)
	}
}

// lookAfter asks for a new consumer when the prefetch is off by more than a factor of two, and else
// looks for loss.
func (k *consumer) lookAfter() {
	want := k.wantedPrefetch()
	k.mu.Lock()
	have := k.credit.prefetch
	k.mu.Unlock()
	if want > 2*have || have > 2*want {
		signal(k.again)
		return
	}
	k.lookForLoss(have)
}
