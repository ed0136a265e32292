package rabbit

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stepwell/stepwell/internal/queue"
)

// The keeper leaves the acks of 2 and 3 out at first, since 1 is held, and nothing else wakes it:
// the broker sends no more while it waits for four.
func TestAcksThatWereLeftOutBehindAHeldMessageAreToldThoughNoOtherComes(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		n := newNames(t, url)
		b, _ := run(t, Config{URLs: []string{url}})
		declare(t, b, n.specs())
		publish(t, b, n.instant, 0, 5)
		var in inbox
		stop := consume(t, b, queue.Consumption{Queue: n.instant, Handle: in.add, Prefetch: func() int { return 4 }})
		eventually(t, 10*time.Second, "as many deliveries as the prefetch", in.has(4))
		in.deliveries()[1].Ack()
		in.deliveries()[2].Ack()
		eventually(t, 10*time.Second, "the fifth", in.has(5))
		for _, d := range in.deliveries() {
			d.Ack()
		}
		stop()
		depthIs(t, b, n.instant, 0)
	})
}

// What is prefetched is given back with a frame each, behind the acks: RabbitMQ's channel passes on
// 32 frames at once, and drops the rest when it is closed before its queue applied those.
func TestStopsInOrderUnderLoadRepeatNoFinishedCall(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		const stops, each, workers = 5, 200, 16
		for _, took := range []time.Duration{0, 20 * time.Millisecond} { // ended by the stop, or soon after
			n := newNames(t, url)
			b, _ := run(t, Config{URLs: []string{url}})
			declare(t, b, n.specs())
			publish(t, b, n.instant, 0, stops*each+500)
			var mu sync.Mutex
			calls := map[string]int{}
			for i := range stops {
				stop, end := context.WithCancel(t.Context())
				seats := make(chan struct{}, workers)
				handle := func(ctx context.Context, d queue.Delivery) bool {
					if ctx.Err() != nil { // as an inbox does: what comes after the stop is given back
						return false
					}
					select {
					case <-ctx.Done():
						return false
					case seats <- struct{}{}:
					}
					time.AfterFunc(took, func() {
						mu.Lock()
						defer mu.Unlock()
						calls[d.ID]++
						d.Ack()
						if <-seats; len(calls) >= (i+1)*each {
							end()
						}
					})
					return true
				}
				_ = b.Consume(stop, t.Context(), queue.Consumption{Queue: n.instant, Prefetch: func() int { return 300 }, Handle: handle})
			}
			again := 0
			for _, times := range calls {
				again += times - 1
			}
			if again > 0 {
				t.Errorf("calls of %s: %d of %d ran again after a stop", took, again, len(calls))
			}
		}
	})
}

// A process may die while that waits: the ack of a call that ended beside it must not cover it.
func TestWhatAStopHasNotGivenBackYetIsBackWhenTheProcessDies(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		const messages = 8
		n := newNames(t, url)
		proxy := newProxy(t, url)
		b, _ := run(t, Config{URLs: []string{url}})
		dying, _ := run(t, Config{URLs: []string{proxy.url}})
		declare(t, b, n.specs())
		publish(t, b, n.instant, 0, messages)
		var in inbox
		stop, begin := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- dying.Consume(stop, t.Context(), queue.Consumption{Queue: n.instant, Handle: in.add, Prefetch: func() int { return messages }})
		}()
		eventually(t, 10*time.Second, "all deliveries", in.has(messages))
		begin()
		all := in.deliveries()
		for _, d := range all[1 : messages-1] {
			d.Release()
		}
		all[messages-1].Ack() // the first runs still
		if err := all[messages-1].Flush(t.Context()); err != nil {
			t.Error(err)
		}
		proxy.cut()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		depthIs(t, b, n.instant, messages-1)
	})
}

func TestAnAckThatWasFlushedHoldsThoughTheConnectionIsCutAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		n := newNames(t, url)
		proxy := newProxy(t, url)
		b, _ := run(t, Config{URLs: []string{url}})
		cut, _ := run(t, Config{URLs: []string{proxy.url}})
		declare(t, b, n.specs())
		const rounds = 10
		for i := range rounds {
			publish(t, b, n.instant, i, i+1)
			acked := make(chan error, 1)
			var in inbox
			stop := consume(t, cut, queue.Consumption{Queue: n.instant, Handle: func(ctx context.Context, d queue.Delivery) bool {
				if in.add(ctx, d); len(in.deliveries()) == 1 {
					d.Ack()
					acked <- d.Flush(ctx)
					proxy.cut()
				}
				return true
			}})
			if err := <-acked; err != nil {
				t.Fatal(err)
			}
			stop()
			if got := in.deliveries(); len(got) != 1 || got[0].ID != numbered(i).ID {
				t.Fatalf("round %d: %d deliveries, the first %s", i, len(got), got[0].ID)
			}
		}
		depthIs(t, b, n.dead, 0)
		depthIs(t, b, n.instant, 0)
	})
}
