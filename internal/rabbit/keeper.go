package rabbit

import (
	"context"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/stepwell/stepwell/internal/failpoint"
)

const (
	ackDelay      = 10 * time.Millisecond // how long an ack waits for others to go with it
	ackBatch      = 64                    // how many acks do not wait
	pauseInterval = time.Second           // how often a pause is asked for where nothing signals it, and a larger prefetch
	prefetchEvery = 5 * time.Second
)

// keep looks after the channel until ctx ends: it sends acks, and ends the consumer's life when the
// broker does.
func (k *consumer) keep(ctx context.Context) { //nolint:gocyclo // one loop over all events of a consumer
	pause := time.NewTicker(pauseInterval)
	defer pause.Stop()
	prefetch := time.NewTicker(prefetchEvery)
	defer prefetch.Stop()
	var flush <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.ctx.Done():
			return
		case err := <-k.closed:
			if err != nil {
				k.end(fmt.Errorf("channel closed: %w", err))
			} else {
				k.end(errSessionOver)
			}
		case _, ok := <-k.lost:
			if ok {
				k.end(fmt.Errorf("%w; the time-out should be %s", errConsumerLost, k.b.config.ConsumerTimeout))
			} else {
				k.lost = nil
			}
		case <-k.acks.wake:
			if k.acks.urgent(k.batch()) {
				k.flush()
			} else if flush == nil {
				flush = time.After(ackDelay)
			}
		case <-flush:
			flush = nil
			k.flush()
		case <-k.c.Changed:
			k.lookAtPause()
		case <-pause.C:
			k.lookAtPause()
			k.grow()
			if k.b.topology.creations(k.c.Queue) != k.queue {
				k.end(errConsumerForgot)
			}
		case <-prefetch.C:
			k.lookAfter()
		}
	}
}

// ask has the broker answer, which it does after it has taken what was sent before.
func (k *consumer) ask() error {
	k.rpc.Lock()
	defer k.rpc.Unlock()
	return k.session.call("flush acks", func() error { return k.ch.Qos(k.limit(), 0, false) })
}

// batch is how many acks do not wait: the broker sends no more while too many do.
func (k *consumer) batch() int { return max(1, min(ackBatch, k.limit()/2)) }

// limit is the prefetch as the broker knows it.
func (k *consumer) limit() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return max(1, k.prefetch)
}

// flush tells the broker what was settled; the channel's life ends where that is not possible.
func (k *consumer) flush() {
	failpoint.Hit("ack")
	asked := k.acks.takeAsked()
	err := tell(k.ch, k.acks.plan())
	k.session.written()
	failpoint.Hit("acked")
	if err == nil && len(asked) > 0 {
		err = k.ask()
	}
	for _, done := range asked {
		done <- err
	}
	if err != nil {
		k.end(err)
	}
}

// acker is the part of a channel that acks go to.
type acker interface {
	Ack(tag uint64, multiple bool) error
	Nack(tag uint64, multiple, requeue bool) error
}

func tell(ch acker, words []word) error {
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
// none.
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

// lookForLoss looks whether the broker still knows the consumer, when nothing came for a while
// though it could have. A queue that is deleted and declared again at once may not tell its
// consumers.
func (k *consumer) lookForLoss(prefetch int) {
	came := k.came.Load()
	idle := came == k.seen && !k.busy.Load() && !k.paused() && k.acks.outstanding() < prefetch
	k.seen = came
	if !idle {
		k.starved = 0
		return
	}
	state, err := k.session.inspect(k.c.Queue)
	switch {
	case code(err) == amqp.NotFound:
		k.end(errConsumerForgot)
	case err != nil || k.came.Load() != came:
	case state.Consumers == 0:
		k.end(errConsumerForgot)
	case state.Messages > 0: // it may be on its way: believe it the second time
		if k.starved++; k.starved > 1 {
			k.end(errConsumerForgot)
		}
	}
}

// grow asks for a new consumer as soon as more than twice as much may be fetched ahead, as after
// the first calls of a fast handler.
func (k *consumer) grow() {
	want := k.wantedPrefetch()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.prefetch > 0 && want > 2*k.prefetch {
		signal(k.again)
	}
}

// lookAfter asks for a new consumer when the prefetch is off by more than a factor of two, and else
// looks for loss.
func (k *consumer) lookAfter() {
	want := k.wantedPrefetch()
	k.mu.Lock()
	have := k.prefetch
	k.mu.Unlock()
	if want > 2*have || have > 2*want {
		signal(k.again)
		return
	}
	k.lookForLoss(have)
}
