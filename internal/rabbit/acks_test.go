package rabbit

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/stepwell/stepwell/internal/queue"
)

func TestAcksWithoutAGapGoTogether(t *testing.T) {
	a := newAcks()
	for tag := uint64(1); tag <= 6; tag++ {
		a.take(tag)
	}
	a.Ack(1)
	a.Ack(2)
	a.Release(3)
	a.Ack(4)
	a.Ack(6)
	want := []word{{tag: 3, requeue: true}, {tag: 4, multiple: true}, {tag: 6}}
	if got := a.plan(); !slices.Equal(got, want) {
		t.Errorf("plan: %v, not %v", got, want)
	}
	a.Ack(5)
	if got, want := a.plan(), []word{{tag: 5, multiple: true}}; !slices.Equal(got, want) {
		t.Errorf("plan: %v, not %v", got, want)
	}
}

// The model is a broker that knows which tags it waits for, and refuses a word about any other.
func TestBrokerIsToldOfEveryTagOnceAndOfNoOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := newAcks()
		next := uint64(1)
		waits := map[uint64]bool{} // what the broker waits for
		said := map[uint64]mark{}  // what was said to acks
		heard := map[uint64]mark{} // what the broker heard
		hear := func(tag uint64, as mark) {
			if !waits[tag] {
				t.Fatalf("the broker does not wait for tag %d", tag)
			}
			delete(waits, tag)
			heard[tag] = as
		}
		flush := func() {
			for _, w := range a.plan() {
				switch {
				case w.requeue:
					hear(w.tag, released)
				case w.multiple:
					for tag := uint64(1); tag < w.tag; tag++ {
						if waits[tag] {
							hear(tag, acked)
						}
					}
					hear(w.tag, acked)
				default:
					hear(w.tag, acked)
				}
			}
		}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				a.take(next)
				waits[next] = true
				next++
			case 1, 2:
				tag := rapid.Uint64Range(0, next+2).Draw(t, "tag")
				as := rapid.SampledFrom([]mark{acked, released}).Draw(t, "as")
				a.settle(tag, as)
				if _, before := said[tag]; !before && tag > 0 && tag < next {
					said[tag] = as
				}
			case 3:
				flush()
			}
		}
		flush()
		if len(said) != len(heard) || a.outstanding() != int(next-1)-len(said) {
			t.Fatalf("said %d, heard %d, outstanding %d of %d", len(said), len(heard), a.outstanding(), next-1)
		}
		for tag, as := range said {
			if heard[tag] != as {
				t.Fatalf("tag %d: said %d, heard %d", tag, as, heard[tag])
			}
		}
	})
}

func TestWhoSendsAcksIsWokenByTheFirstAndByEnough(t *testing.T) {
	a := newAcks()
	woken := func() bool {
		select {
		case <-a.wake:
			return true
		default:
			return false
		}
	}
	if a.gather(3); woken() {
		t.Error("woken though there is nothing to tell")
	}
	for round := range uint64(2) { // the plan begins the count anew
		for n, want := range []bool{true, false, true, true} {
			tag := 4*round + uint64(n) + 1
			a.take(tag)
			a.settle(tag, mark(n%2)+acked)
			if got := woken(); got != want {
				t.Errorf("round %d, ack %d: woken %t", round, n+1, got)
			}
			if enough := n >= 2; a.urgent() != enough {
				t.Errorf("round %d, ack %d: urgent %t", round, n+1, !enough)
			}
		}
		a.plan()
	}
	for tag := range uint64(2) {
		a.take(tag + 9)
		a.Ack(tag + 9)
	}
	woken() // by the first
	if a.gather(2); !woken() {
		t.Error("not woken though what is there is enough now")
	}
}

func TestDeadAcksDropEverything(t *testing.T) {
	a := newAcks()
	a.take(1)
	a.Ack(1)
	a.die()
	a.Ack(1)
	if got := a.plan(); got != nil || a.outstanding() != 0 {
		t.Errorf("plan %v, outstanding %d", got, a.outstanding())
	}
}

func TestWhoWaitsForAFlushIsToldOfTheEndOfTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAcks()
		ended := make(chan error, 1)
		go func() { ended <- a.Flush(t.Context()) }()
		synctest.Wait()
		if len(ended) != 0 || !a.urgent() {
			t.Error("nobody waits for the broker")
		}
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := a.Flush(soon); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a flush that nobody answered in time: %v", err)
		}
		a.die()
		if err := <-ended; err == nil {
			t.Error("a flush that never came is no error")
		}
		if err := a.Flush(t.Context()); err == nil {
			t.Error("a flush after the end is no error")
		}
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
