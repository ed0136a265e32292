package queuetest

import (
	"errors"
	"testing"

	"github.com/stepwell/stepwell/internal/queue"
)

func walking() map[string]func(*testing.T, *world) {
	return map[string]func(*testing.T, *world){
		"ALeaseIsForOneUntilItIsReleased":                  leaseIsForOne,
		"ALeaseOfANameThatIsNoQueueIsForOneAndTellsItsEnd": leaseOfAName,
		"ThirtyWindowsOfManySizesSeeTheSameHead":           thirtyWindows,
		"WhatIsAckedLeavesAndTheRestStaysInItsOrder":       partialAcks,
		"AcksThatAreFarApartAreAllTaken":                   scattered,
		"WhatArrivesDuringAWalkIsKept":                     arrivals,
		"AWindowHoldsNoMoreThanItsBytes":                   windowBytes,
		"AWindowMovesOnAsItsHeadIsAckedAndNoFurther":       windowMovesOn,
		"ANarrowWindowHoldsNoMoreThanFewAtATime":           narrow,
		"AWindowOutOfRangeOrBesideAnotherIsRefused":        windowRefusals,
		"AWalkOfAQueueThatIsMissingMayBeTriedAgain":        missingQueue,
		"AReleasedLeaseLeavesEverythingInTheQueue":         leaseEndsItsWindow,
		"AnEmptyQueueHasAnEmptyWindow": func(t *testing.T, w *world) {
			w.declare(t)
			empty := window(t, w.lease(t, w.dead), 10)
			are(t, empty.all)
			shut(t, empty, 0)
		},
	}
}

// Two walks at a time would hand out different parts of the queue to each: what one person saw
// would not be what the other deletes.
func leaseIsForOne(t *testing.T, w *world) {
	w.declare(t)
	first := w.lease(t, w.dead)
	if _, err := w.Lease(t.Context(), w.dead); !errors.Is(err, queue.ErrLeased) {
		t.Errorf("while another has it: %v", err)
	}
	w.lease(t, w.instant) // of another queue: free
	first.Release()
	first.Release()
	again := w.lease(t, w.dead)
	first.Release() // an old one's release frees nothing
	if _, err := w.Lease(t.Context(), w.dead); !errors.Is(err, queue.ErrLeased) {
		t.Errorf("while another has it: %v", err)
	}
	again.Release()
	// At once after a release, as a script does that peeks and then deletes.
	for i := range 20 {
		l, err := w.Lease(t.Context(), w.dead)
		if err != nil {
			t.Fatalf("%d releases later: %v", i, err)
		}
		l.Release()
	}
}

// A name can be leased to agree on who does something, and whoever has it learns that it ended.
func leaseOfAName(t *testing.T, w *world) {
	name := w.dead + ".of-nothing"
	first := w.lease(t, name)
	if _, err := w.Lease(t.Context(), name); !errors.Is(err, queue.ErrLeased) {
		t.Errorf("while another has it: %v", err)
	}
	select {
	case <-first.Ended():
		t.Error("it has ended by itself")
	default:
	}
	if _, err := first.Window(within(t), 1, 1); !errors.Is(err, queue.ErrUnavailable) {
		t.Errorf("a window of no queue: %v", err)
	}
	first.Release()
	select {
	case <-first.Ended():
	case <-within(t).Done():
		t.Error("it does not tell its end")
	}
	w.lease(t, name).Release()
}

// Looking changes nothing: windows of different sizes, one after another, must not turn the queue.
func thirtyWindows(t *testing.T, w *world) {
	w.declare(t)
	const count = 2500
	w.fill(t, w.dead, 0, count)
	l := w.lease(t, w.dead)
	for i := range 30 {
		most := []int{10, 500, 2000, 1, 37}[i%5]
		win := window(t, l, most)
		if win.Depth() != count {
			t.Fatalf("depth %d", win.Depth())
		}
		are(t, win.all, upTo(0, most)...)
		shut(t, win, count)
	}
	l.Release()
	are(t, w.consume(t, w.dead, 10).take(t, 10), upTo(0, 10)...)
}

// What is acked goes, what is released or left alone keeps its place, what came later follows.
func partialAcks(t *testing.T, w *world) {
	w.declare(t)
	w.fill(t, w.dead, 0, 100)
	l := w.lease(t, w.dead)
	win := window(t, l, 8)
	for _, d := range win.all {
		d.Ack()
	}
	shut(t, win, 92)
	win = window(t, l, 10)
	are(t, win.all, upTo(8, 18)...)
	win.all[3].Ack()
	win.all[4].Release()
	shut(t, win, 91)
	win = window(t, l, 2000)
	are(t, win.all, append([]int{8, 9, 10}, upTo(12, 100)...)...)
	shut(t, win, 91)
	w.fill(t, w.dead, 100, 110)
	win = window(t, l, 2000)
	are(t, win.all[91:], upTo(100, 110)...)
	for _, d := range win.all {
		d.Ack()
	}
	shut(t, win, 0)
	w.depthIs(t, w.dead, 0)
}

// Messages die while a person looks: they are neither lost nor taken for acks that failed.
func arrivals(t *testing.T, w *world) {
	w.declare(t)
	w.fill(t, w.dead, 0, 20)
	win := window(t, w.lease(t, w.dead), 20)
	w.fill(t, w.dead, 20, 50)
	for _, d := range win.all[:5] {
		d.Ack()
	}
	// How many of the late ones the queue shows by then is not certain.
	if depth, err := win.Close(within(t)); err != nil || depth < 15 || depth > 45 {
		t.Errorf("Close: %d, %v", depth, err)
	}
	w.depthIs(t, w.dead, 45)
}

// Memory is bounded, but one message is always handed out: a walk would never get past a large one.
func windowBytes(t *testing.T, w *world) {
	w.declare(t)
	told := make(chan error, 20)
	p := w.Publisher("test")
	const each = 10_000
	for i := range 20 {
		m := numbered(i)
		m.Body = make([]byte, each)
		p.Publish(t.Context(), w.dead, m, func(err error) { told <- err })
	}
	for range 20 {
		if err := await(t, told, "a confirm"); err != nil {
			t.Fatal(err)
		}
	}
	l := w.lease(t, w.dead)
	for _, test := range []struct{ bytes, want int }{{10*each + each/2, 10}, {1, 1}, {each * 100, 20}} {
		win := windowOf(t, l, 2000, test.bytes)
		are(t, win.all, upTo(0, test.want)...)
		shut(t, win, 20)
	}
}

// A walk may be longer than a window holds: acks make room for the next messages, never for such as
// came after the window was opened. What it leaves out stays at the head.
func windowMovesOn(t *testing.T, w *world) {
	w.declare(t)
	const count, left, late = 7000, 300, 50
	w.fill(t, w.dead, 0, count)
	l := w.lease(t, w.dead)
	for round, most := range []int{count, count - 500} { // nothing is acked in the first
		win, err := l.Window(within(t), most, 64<<20)
		if err != nil {
			t.Fatal(err)
		}
		var kept []queue.Delivery
		for i := range queue.WindowSize {
			kept = append(kept, next(t, win))
			if want := numbered(i).ID; kept[i].ID != want {
				t.Fatalf("message %d is %s, not %s", i, kept[i].ID, want)
			}
		}
		select {
		case d, ok := <-win.Deliveries():
			t.Fatalf("a window that holds all it may hands out %s (%v)", d.ID, ok)
		default:
		}
		if round == 0 {
			shut(t, win, count)
			continue
		}
		w.fill(t, w.dead, count, count+late)
		for _, d := range kept[left:] { // the oldest are left out
			d.Ack()
		}
		for i := queue.WindowSize; i < most; i++ {
			d := next(t, win)
			if want := numbered(i).ID; d.ID != want {
				t.Fatalf("message %d is %s, not %s", i, d.ID, want)
			}
			d.Ack()
		}
		if d, ok := <-win.Deliveries(); ok {
			t.Fatalf("more than was asked for: %s", d.ID)
		}
		if depth, err := win.Close(within(t)); err != nil || depth < left+500 || depth > left+500+late {
			t.Errorf("Close: %d, %v", depth, err)
		}
		w.depthIs(t, w.dead, left+500+late)
	}
	end := window(t, l, queue.WindowSize)
	are(t, end.all, append(upTo(0, left), upTo(count-500, count+late)...)...)
	shut(t, end, left+500+late)
}

// Acks that no one word covers, as those of messages that were chosen, are many words: a broker
// that is slow to take them loses some with the channel.
func scattered(t *testing.T, w *world) {
	w.declare(t)
	const count = queue.WindowSize
	w.fill(t, w.dead, 0, count)
	l := w.lease(t, w.dead)
	chosen := window(t, l, count)
	for i := 0; i < count; i += 2 {
		chosen.all[i].Ack()
	}
	shut(t, chosen, count/2)
	rest := window(t, l, count)
	for i, d := range rest.all {
		if want := numbered(2*i + 1).ID; d.ID != want {
			t.Fatalf("message %d is %s, not %s", i, d.ID, want)
		}
	}
	shut(t, rest, count/2)
}

// A narrow window holds few large messages at a time, and its acks make room one by one.
func narrow(t *testing.T, w *world) {
	w.declare(t)
	const count, few = 30, 4
	w.fill(t, w.dead, 0, count)
	win, err := w.lease(t, w.dead).Narrow(within(t), count, few, 64<<20)
	if err != nil {
		t.Fatal(err)
	}
	var held []queue.Delivery
	for i := range count {
		if len(held) == few {
			nothing(t, win.Deliveries(), "a message beyond those that are held")
			for _, d := range held {
				d.Ack()
			}
			held = nil
		}
		d := next(t, win)
		are(t, []queue.Delivery{d}, i)
		held = append(held, d)
	}
	shut(t, win, len(held))
}

func next(t *testing.T, w queue.Window) queue.Delivery {
	t.Helper()
	select {
	case d, ok := <-w.Deliveries():
		if !ok {
			t.Fatal("the window has come to its end")
		}
		return d
	case <-within(t).Done():
		t.Fatal("no message comes")
	}
	return queue.Delivery{}
}

// Either the lease or the window may find out. ErrUnavailable says that it can be tried again.
func missingQueue(t *testing.T, w *world) {
	var err error
	if l, leaseErr := w.Lease(within(t), w.dead); leaseErr != nil {
		err = leaseErr
	} else {
		_, err = l.Window(within(t), 10, 1<<20)
		l.Release()
	}
	if !errors.Is(err, queue.ErrUnavailable) {
		t.Errorf("before it is declared: %v", err)
	}
	w.declare(t)
	shut(t, window(t, w.lease(t, w.dead), 10), 0)
}

// A mistake is told, and spoils neither the lease nor the window that is open.
func windowRefusals(t *testing.T, w *world) {
	w.declare(t)
	w.fill(t, w.dead, 0, 1)
	l := w.lease(t, w.dead)
	for _, most := range []int{-1, 0} {
		if _, err := l.Window(t.Context(), most, 1); err == nil {
			t.Errorf("a window of %d", most)
		}
	}
	win := window(t, l, 1)
	if _, err := l.Window(t.Context(), 1, 1); err == nil {
		t.Error("a window beside another")
	}
	shut(t, win, 1)
	shut(t, window(t, l, 1), 1)
	l.Release()
	if _, err := l.Window(t.Context(), 1, 1); !errors.Is(err, queue.ErrUnavailable) {
		t.Errorf("a window after the lease: %v", err)
	}
}

// A walk that dies gives everything back, and an ack after that settles nothing.
func leaseEndsItsWindow(t *testing.T, w *world) {
	w.declare(t)
	w.fill(t, w.dead, 0, 10)
	l := w.lease(t, w.dead)
	held := window(t, l, 5).all
	l.Release()
	held[0].Ack() // too late
	w.depthIs(t, w.dead, 10)
	win := window(t, w.lease(t, w.dead), 10)
	are(t, win.all, upTo(0, 10)...)
	shut(t, win, 10)
}
