package rabbit

import (
	"context"
	"fmt"
	"time"
)

const (
	ackDelay      = 3 * time.Millisecond // how long an ack waits for others to go with it
	pauseInterval = time.Second          // how often a pause is asked for where nothing signals it
	prefetchEvery = 5 * time.Second
)

// keep looks after the channel until ctx ends: it sends acks, and ends the consumer's life when the broker does.
func (k *consumer) keep(ctx context.Context) {
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
				k.end(errConsumerLost)
			} else {
				k.lost = nil
			}
		case <-k.acks.wake:
			if flush == nil {
				flush = time.After(ackDelay)
			}
		case <-flush:
			flush = nil
			if err := k.flush(); err != nil {
				k.end(err)
			}
		case <-k.c.Changed:
			k.lookAtPause()
		case <-pause.C:
			k.lookAtPause()
		case <-prefetch.C:
			k.lookAtPrefetch()
		}
	}
}

// flush tells the broker what was settled.
func (k *consumer) flush() error {
	return tell(k.ch, k.acks.plan())
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

// lookAtPause ends the handing out when there is a pause, and lets it begin again when there is none.
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

// lookAtPrefetch asks for a new consumer when the prefetch is off by more than a factor of two.
func (k *consumer) lookAtPrefetch() {
	want := k.wantedPrefetch()
	k.mu.Lock()
	have := k.prefetch
	k.mu.Unlock()
	if want > 2*have || have > 2*want {
		signal(k.again)
	}
}
