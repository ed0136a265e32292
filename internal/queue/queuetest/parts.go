package queuetest

import (
	"errors"
	"testing"
	"time"

	"github.com/stepwell/stepwell/internal/queue"
)

// parting are the promises about queues that belong to another one, and are walked with its lease.
func parting() map[string]func(*testing.T, *world) {
	return map[string]func(*testing.T, *world){
		"ALeaseWalksOtherQueuesToo":                    leaseOnOthers,
		"WhatIsProvenIsThereWithItsArguments":          proving,
		"AnEmptyQueueIsDroppedAndOneThatIsNotIsKept":   dropping,
		"WindowsOnOtherQueuesEndWithTheLease":          partsEndWithTheLease,
		"AQueueThatIsNotThereHasNoDepthForALease":      depthOfMissing,
		"WhatIsAckedInOneQueueLeavesTheOthersAlone":    acksOfParts,
		"AQueueThatWasDroppedIsMadeAgainWhenItIsAsked": provenAgain,
		"WhatIsTooOldIsGoneAndSpoilsNoWindow":          fading,
	}
}

// page is a queue beside the world's dead set, made by Prove.
func (w *world) page(t *testing.T) queue.Spec {
	t.Helper()
	spec := queue.Spec{Name: w.dead + ".page.0", Kind: queue.DeadSet}
	if w.place.Delete != nil {
		t.Cleanup(func() { w.place.Delete(spec.Name) })
	}
	if n, err := w.Prove(within(t), []queue.Spec{spec}); n != 1 || err != nil {
		t.Fatalf("Prove: %d, %v", n, err)
	}
	return spec
}

// One lease covers a queue and all that belong to it, so that no two walks meet anywhere.
func leaseOnOthers(t *testing.T, w *world) {
	w.declare(t)
	page := w.page(t)
	w.fill(t, page.Name, 0, 5)
	w.fill(t, w.dead, 5, 8)
	l := w.lease(t, w.dead)
	on := l.On(page)
	for of, want := range map[queue.Lease]int{on: 5, l: 3} {
		if n, err := of.Depth(within(t)); n != want || err != nil {
			t.Fatalf("depth %d, not %d: %v", n, want, err)
		}
	}
	first := window(t, on, 2)
	second := window(t, l, 10) // beside the one on another queue
	are(t, first.all, 0, 1)
	are(t, second.all, 5, 6, 7)
	if _, err := on.Window(t.Context(), 1, 1); err == nil {
		t.Error("two windows of one queue")
	}
	shut(t, first, 5)
	shut(t, second, 3)
}

func acksOfParts(t *testing.T, w *world) {
	w.declare(t)
	page := w.page(t)
	w.fill(t, page.Name, 0, 5)
	w.fill(t, w.dead, 0, 5)
	l := w.lease(t, w.dead)
	win := window(t, l.On(page), 10)
	win.all[0].Ack()
	win.all[1].Ack()
	shut(t, win, 3)
	shut(t, window(t, l, 10), 5)
	rest := window(t, l.On(page), 10)
	are(t, rest.all, 2, 3, 4)
	shut(t, rest, 3)
}

// What another made under the same name and otherwise must never get a message.
func proving(t *testing.T, w *world) {
	w.declare(t)
	good := queue.Spec{Name: w.dead, Kind: queue.DeadSet}
	bad := queue.Spec{Name: w.instant, Kind: queue.DeadSet} // it is there with other arguments
	last := queue.Spec{Name: w.dead + ".page.7", Kind: queue.DeadSet}
	if n, err := w.Prove(within(t), []queue.Spec{good, bad, last}); n != 1 || err == nil {
		t.Fatalf("Prove: %d, %v", n, err)
	}
	if _, err := w.Depth(within(t), last.Name); !errors.Is(err, queue.ErrMissing) {
		t.Errorf("what comes behind one that is not proven: %v", err)
	}
	w.page(t)
	w.page(t) // again: it is there
}

func dropping(t *testing.T, w *world) {
	w.declare(t)
	page := w.page(t)
	w.fill(t, page.Name, 0, 1)
	l := w.lease(t, w.dead)
	on := l.On(page)
	if err := on.Drop(within(t)); err == nil {
		t.Fatal("a queue with a message was deleted")
	}
	if err := l.Drop(within(t)); err == nil {
		t.Fatal("the leased queue itself was deleted")
	}
	win := window(t, on, 1)
	win.all[0].Ack()
	shut(t, win, 0)
	if err := on.Drop(within(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Depth(within(t), page.Name); !errors.Is(err, queue.ErrMissing) {
		t.Errorf("after it was deleted: %v", err)
	}
	if n, err := l.Depth(within(t)); n != 0 || err != nil {
		t.Errorf("the lease is spoilt: %d, %v", n, err)
	}
}

func provenAgain(t *testing.T, w *world) {
	w.declare(t)
	page := w.page(t)
	l := w.lease(t, w.dead)
	if err := l.On(page).Drop(within(t)); err != nil {
		t.Fatal(err)
	}
	w.page(t)
	w.fill(t, page.Name, 0, 3)
	shut(t, window(t, l.On(page), 10), 3)
}

func partsEndWithTheLease(t *testing.T, w *world) {
	w.declare(t)
	page := w.page(t)
	w.fill(t, page.Name, 0, 5)
	l := w.lease(t, w.dead)
	on := l.On(page)
	held := window(t, on, 5).all
	l.Release()
	held[0].Ack() // too late
	w.depthIs(t, page.Name, 5)
	if _, err := l.On(page).Window(t.Context(), 1, 1); !errors.Is(err, queue.ErrUnavailable) {
		t.Errorf("a window after the lease: %v", err)
	}
}

func depthOfMissing(t *testing.T, w *world) {
	w.declare(t)
	l := w.lease(t, w.dead)
	if _, err := l.On(queue.Spec{Name: w.dead + ".page.0", Kind: queue.DeadSet}).Depth(within(t)); !errors.Is(err, queue.ErrMissing) {
		t.Errorf("a queue that is not there: %v", err)
	}
	shut(t, window(t, l, 10), 0) // the lease goes on
}

// What becomes too old in somebody's hands is gone when it is given back, and one that was acked in
// time is no trouble either.
func fading(t *testing.T, w *world) {
	w.declare(t)
	const keep = time.Second
	spec := queue.Spec{Name: w.dead + ".trash.1.0", Kind: queue.DeadSet, TTL: keep}
	if w.place.Delete != nil {
		t.Cleanup(func() { w.place.Delete(spec.Name) })
	}
	if n, err := w.Prove(within(t), []queue.Spec{spec}); n != 1 || err != nil {
		t.Fatalf("Prove: %d, %v", n, err)
	}
	w.fill(t, spec.Name, 0, 5)
	l := w.lease(t, w.dead)
	win := window(t, l.On(spec), 10)
	are(t, win.all, 0, 1, 2, 3, 4)
	if limit := w.ReturnLimit(spec.Name); limit < 1000 {
		t.Errorf("its arguments were not compared: %d returns", limit)
	}
	win.all[0].Ack()
	<-time.After(2 * keep)
	w.fill(t, spec.Name, 5, 7)
	if n, err := win.Close(within(t)); n > 6 || err != nil {
		t.Errorf("closed: %d, %v", n, err)
	}
	w.depthIs(t, spec.Name, 0)
	shut(t, window(t, l.On(spec), 10), 0)
	if err := l.On(spec).Drop(within(t)); err != nil {
		t.Error(err)
	}
}
