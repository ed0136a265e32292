package queuetest

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stepwell/stepwell/internal/queue"
)

func consuming() map[string]func(*testing.T, *world) {
	return map[string]func(*testing.T, *world){
		"PrefetchIsNeverExceeded":                 prefetchIsNeverExceeded,
		"AfterStopNothingIsHandedOut":             afterStop,
		"WhatIsNotAckedComesBackInItsOrder":       comesBackInOrder,
		"WhatIsReleasedComesAgain":                releasedComesAgain,
		"WhatIsReleasedAtAStopComesNoMore":        releasedAtAStop,
		"WhatAStopGivesBackWaitsForNoLongCall":    releasedBesideALongCall,
		"WhatIsReleasedInAPauseComesAfterIt":      releasedInAPause,
		"AnAckAfterTheEndOfItsSessionIsDropped":   lateAck,
		"APausedConsumerGivesBackAndGoesOn":       paused,
		"AConsumerWaitsForAQueueThatIsMissing":    consumerWaits,
		"TwoConsumersShareAQueueWithoutDoubling":  twoConsumers,
		"WhatAStrangerPublishedComesWithAllItHas": foreign,
	}
}

// The prefetch bounds what a process holds, and so what it repeats when it dies.
func prefetchIsNeverExceeded(t *testing.T, w *world) {
	w.declare(t)
	w.fill(t, w.instant, 0, 20)
	k := w.consume(t, w.instant, 5)
	held := k.take(t, 5)
	nothing(t, k.got, "more than was asked for")
	held[2].Ack()
	are(t, k.take(t, 1), 5)
	nothing(t, k.got, "more than was asked for")
}

// A stop takes nothing more, and still lets what is being handled be acked: else each restart would
// repeat what was done.
func afterStop(t *testing.T, w *world) {
	w.declare(t)
	w.fill(t, w.instant, 0, 10)
	k := w.consume(t, w.instant, 3)
	held := k.take(t, 2)
	k.stop()
	nothing(t, k.got, "handed out after the stop")
	nothing(t, k.returned, "returned though it must wait for acks")
	held[0].Ack()
	held[1].Release()
	if err := await(t, k.returned, "the end of Consume"); err != nil {
		t.Errorf("Consume: %v", err)
	}
	w.depthIs(t, w.instant, 9)
}

// The end of a session gives back what was not acked to its old places, ahead of what was never
// handed out, and counts that.
func comesBackInOrder(t *testing.T, w *world) {
	w.declare(t)
	w.fill(t, w.instant, 0, 30)
	k := w.consume(t, w.instant, 10)
	held := k.take(t, 10)
	are(t, held, upTo(0, 10)...)
	held[3].Ack()
	held[4].Ack()
	k.quit(t)
	w.depthIs(t, w.instant, 28)
	again := w.consume(t, w.instant, 100).take(t, 28)
	are(t, again, append([]int{0, 1, 2}, upTo(5, 30)...)...)
	// How many of the others were prefetched, and so came back, is the broker's affair: only the
	// ends are certain.
	for i, d := range again {
		if i < 8 && (!d.Redelivered || d.Returns < 0) || i > 20 && d.Redelivered {
			t.Errorf("%s: redelivered %t, returns %d", d.ID, d.Redelivered, d.Returns)
		}
	}
}

// A release gives back one message at once; where it comes in the queue is not promised.
func releasedComesAgain(t *testing.T, w *world) {
	w.declare(t)
	w.fill(t, w.instant, 0, 3)
	k := w.consume(t, w.instant, 1)
	first := k.take(t, 1)
	are(t, first, 0)
	first[0].Release()
	var ids []string
	for range 3 {
		d := k.take(t, 1)[0]
		if d.Redelivered != (d.ID == id(0)) {
			t.Errorf("%s: redelivered %t", d.ID, d.Redelivered)
		}
		ids = append(ids, d.ID)
		d.Ack()
	}
	slices.Sort(ids)
	if !slices.Equal(ids, []string{id(0), id(1), id(2)}) {
		t.Errorf("came: %v", ids)
	}
	w.depthIs(t, w.instant, 0)
}

// A consumer that still had what a stop gives back would give it back once more, and each return
// counts: there are queues that bear twenty.
func releasedAtAStop(t *testing.T, w *world) {
	const stops, messages = 10, 8
	w.declare(t)
	w.fill(t, w.instant, 0, messages)
	for range stops {
		k := w.consume(t, w.instant, messages)
		held := k.take(t, messages)
		var releasing sync.WaitGroup
		releasing.Go(func() {
			<-k.stopping
			for _, d := range held {
				d.Release()
			}
		})
		k.stop()
		if err := await(t, k.returned, "the end of Consume"); err != nil {
			t.Errorf("Consume: %v", err)
		}
		releasing.Wait()
		if n := len(k.called); n != messages {
			t.Errorf("handed out %d times, want %d", n, messages)
		}
	}
	w.depthIs(t, w.instant, messages)
}

func releasedBesideALongCall(t *testing.T, w *world) {
	const messages = 8
	w.declare(t)
	w.fill(t, w.instant, 0, messages)
	k := w.consume(t, w.instant, messages)
	held := k.take(t, messages)
	k.stop()
	for _, d := range held[1:] {
		d.Release()
	}
	w.depthIs(t, w.instant, messages-1)
	held[0].Ack()
	if err := await(t, k.returned, "the end of Consume"); err != nil {
		t.Errorf("Consume: %v", err)
	}
	w.depthIs(t, w.instant, messages-1)
}

func releasedInAPause(t *testing.T, w *world) {
	const pauses, messages = 10, 8
	w.declare(t)
	w.fill(t, w.instant, 0, messages)
	var hold atomic.Bool
	changed := make(chan struct{}, 1)
	k := w.consumeWith(t, queue.Consumption{
		Queue: w.instant, Prefetch: func() int { return messages }, Paused: hold.Load, Changed: changed,
	})
	for pause := range pauses {
		held := k.take(t, messages)
		hold.Store(true)
		for _, d := range held {
			d.Release()
		}
		changed <- struct{}{}
		w.depthIs(t, w.instant, messages)
		if n := len(k.called); n != (pause+1)*messages {
			t.Errorf("handed out %d times, want %d", n, (pause+1)*messages)
		}
		hold.Store(false)
		changed <- struct{}{}
	}
}

// An ack that comes after its session must settle nothing: tags begin at one again, and in the next
// session the same number is another message.
func lateAck(t *testing.T, w *world) {
	w.declare(t)
	w.fill(t, w.instant, 0, 2)
	k := w.consume(t, w.instant, 10)
	old := k.take(t, 2)
	k.quit(t)
	k = w.consume(t, w.instant, 10)
	again := k.take(t, 2)
	if ended, lives := old[0].Life.Err(), again[0].Life.Err(); ended == nil || lives != nil {
		t.Errorf("the life of a session that has ended says %v, of one that has not %v", ended, lives)
	}
	for _, d := range old {
		d.Ack()
		d.Release()
	}
	nothing(t, k.got, "an old session gave back")
	k.quit(t)
	w.depthIs(t, w.instant, 2)
	for _, d := range again {
		d.Ack()
	}
	w.depthIs(t, w.instant, 2)
}

// A pause gives back all that is prefetched, also the delivery that a Handle is about to take: what
// waits in a paused process would reach the consumer time-out.
func paused(t *testing.T, w *world) {
	w.declare(t)
	w.fill(t, w.instant, 0, 10)
	var hold atomic.Bool
	changed := make(chan struct{}, 1)
	k := w.consumeWith(t, queue.Consumption{
		Queue: w.instant, Prefetch: func() int { return 5 }, Paused: hold.Load, Changed: changed,
	})
	held := k.take(t, 2)
	for range 3 { // the third call waits
		await(t, k.called, "a call of Handle")
	}
	hold.Store(true)
	changed <- struct{}{}
	w.depthIs(t, w.instant, 8) // also the one that waited to be taken over
	nothing(t, k.got, "handed out in a pause")
	held[0].Ack()
	held[1].Ack()
	hold.Store(false)
	changed <- struct{}{}
	var came []int
	for _, d := range k.take(t, 5) {
		d.Ack()
		came = append(came, int(d.ID[len(d.ID)-1]-'0'))
	}
	came = append(came, drain(t, k, 3)...)
	slices.Sort(came)
	if !slices.Equal(came, upTo(2, 10)) {
		t.Errorf("after the pause came %v", came)
	}
}

// drain acks n deliveries and returns their last digits.
func drain(t *testing.T, k *consumer, n int) (digits []int) {
	t.Helper()
	for range n {
		d := k.take(t, 1)[0]
		digits = append(digits, int(d.ID[len(d.ID)-1]-'0'))
		d.Ack()
	}
	return digits
}

// A queue may be declared after its consumers: they begin in the background.
func consumerWaits(t *testing.T, w *world) {
	k := w.consume(t, w.instant, 1)
	nothing(t, k.returned, "gave up")
	w.declare(t)
	w.fill(t, w.instant, 0, 1)
	are(t, k.take(t, 1), 0)
}

// Two processes work one queue off.
func twoConsumers(t *testing.T, w *world) {
	w.declare(t)
	a, b := w.consume(t, w.instant, 3), w.consume(t, w.instant, 3)
	w.fill(t, w.instant, 0, 10)
	seen := map[string]bool{}
	for range 10 {
		var d queue.Delivery
		select {
		case d = <-a.got:
		case d = <-b.got:
		}
		if seen[d.ID] {
			t.Errorf("%s came twice", d.ID)
		}
		seen[d.ID] = true
		d.Ack()
	}
	w.depthIs(t, w.instant, 0)
}

// A stranger's message comes with all it has.
func foreign(t *testing.T, w *world) {
	if err := w.Examine(within(t), w.instant); !errors.Is(err, queue.ErrMissing) {
		t.Errorf("a queue that is missing: %v", err)
	}
	w.declare(t)
	if err := w.Examine(within(t), w.instant); err != nil {
		t.Errorf("a queue that is there: %v", err)
	}
	k := w.consumeWith(t, queue.Consumption{Queue: w.instant, Foreign: true})
	told := make(chan error, 1)
	w.Publisher("test").Publish(t.Context(), w.instant, queue.Message{ID: "1", Headers: map[string]any{"a": int64(1)}, Body: []byte("x")}, func(err error) { told <- err })
	if err := await(t, told, "what became of it"); err != nil {
		t.Fatal(err)
	}
	d := k.take(t, 1)[0]
	if d.Foreign == nil || d.Foreign.Exchange != "" || d.Foreign.RoutingKey != w.instant {
		t.Errorf("it came by %+v", d.Foreign)
	}
	if d.ID != "1" || d.Headers["a"] != int64(1) || string(d.Body) != "x" {
		t.Errorf("it came as %+v", d.Message)
	}
	d.Ack()
	w.depthIs(t, w.instant, 0)
}

func ending() map[string]func(*testing.T, *world) {
	return map[string]func(*testing.T, *world){
		// Nobody may wait for ever for a broker whose Run has ended: each call answers.
		"AfterTheEndOfRunEverythingSaysClosed": func(t *testing.T, w *world) {
			w.declare(t)
			k := w.consume(t, w.instant, 1)
			told := make(chan error, 2)
			before := w.Publisher("test")
			// To a queue that is missing, so that the message still waits as Run ends.
			before.Publish(t.Context(), w.instant+".missing", numbered(0), func(err error) { told <- err })
			w.stop()
			for _, p := range []queue.Publisher{before, w.Publisher("later")} {
				if err := await(t, told, "what became of it"); !errors.Is(err, queue.ErrClosed) {
					t.Errorf("publish: %v", err)
				}
				p.Publish(t.Context(), w.instant, numbered(1), func(err error) { told <- err })
			}
			if err := await(t, told, "what became of the last"); !errors.Is(err, queue.ErrClosed) {
				t.Errorf("publish: %v", err)
			}
			if err := await(t, k.returned, "the end of Consume"); !errors.Is(err, queue.ErrClosed) {
				t.Errorf("Consume: %v", err)
			}
			_, depthErr := w.Depth(t.Context(), w.instant)
			_, leaseErr := w.Lease(t.Context(), w.dead)
			for _, err := range []error{depthErr, leaseErr, w.Declare(t.Context(), w.specs())} {
				if !errors.Is(err, queue.ErrClosed) {
					t.Errorf("after the end of Run: %v", err)
				}
			}
			if w.Status().Up {
				t.Error("up after the end of Run")
			}
		},
	}
}
