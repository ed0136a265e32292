package rabbit

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
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
	if got, _, left := a.plan(true); !slices.Equal(got, want) || left != 0 {
		t.Errorf("plan: %v, not %v; %d left", got, want, left)
	}
	a.Ack(5)
	if got, _, _ := a.plan(true); !slices.Equal(got, []word{{tag: 5, multiple: true}}) {
		t.Errorf("plan: %v", got)
	}
}

func TestAnAckBehindAHeldTagWaitsForTheGapToCloseUnlessTooManyWould(t *testing.T) {
	a := newAcks()
	a.gather(100, 3)
	for tag := uint64(1); tag <= 9; tag++ {
		a.take(tag)
	}
	for _, step := range []struct {
		acks []uint64
		all  bool
		want []word
		left int
	}{
		{[]uint64{1, 3, 4}, false, []word{{tag: 1, multiple: true}}, 2},
		{[]uint64{2}, false, []word{{tag: 4, multiple: true}}, 0},
		{[]uint64{6, 7, 8}, false, nil, 3},
		{[]uint64{9}, false, []word{{tag: 6}, {tag: 7}, {tag: 8}, {tag: 9}}, 0},
		{nil, true, nil, 0},
		{[]uint64{5}, true, []word{{tag: 5, multiple: true}}, 0},
	} {
		for _, tag := range step.acks {
			a.Ack(tag)
		}
		if got, _, left := a.plan(step.all); !slices.Equal(got, step.want) || left != step.left {
			t.Errorf("after acks of %v: plan %v with %d left, want %v with %d", step.acks, got, left, step.want, step.left)
		}
	}
}

// Else each ack would cost more the longer the call takes, of all calls of its consumer.
func TestAPlanBehindALongCallLooksAtNothingThatWasTold(t *testing.T) {
	a := newAcks()
	behind(a, 100_000)
	if len(a.marks) > 2*a.keep {
		t.Errorf("marks of %d are kept behind one that is held", len(a.marks))
	}
	a.Ack(1)
	a.Ack(1)
	a.Release(2)
	if got, _, left := a.plan(true); !slices.Equal(got, []word{{tag: 1}}) || left != 0 {
		t.Errorf("plan %v after the long call, %d left", got, left)
	}
	a.take(100_002)
	a.Ack(100_002)
	if got, _, _ := a.plan(true); !slices.Equal(got, []word{{tag: 100_002, multiple: true}}) {
		t.Errorf("plan %v once nothing is held", got)
	}
}

// behind has the broker told of n acks while the first tag is held, with a prefetch of 400.
func behind(a *acks, n int) {
	a.gather(batch(400))
	a.take(1)
	for tag := uint64(2); tag < uint64(n)+2; tag++ {
		a.take(tag)
		a.Ack(tag)
		if tag%100 == 0 {
			a.plan(false)
		}
	}
	a.plan(true)
}

func BenchmarkOneHundredAcksBehindAHeldTag(b *testing.B) {
	for _, told := range []int{0, 3_000_000} {
		b.Run(strconv.Itoa(told), func(b *testing.B) {
			a := newAcks()
			behind(a, told)
			for tag := uint64(told) + 2; b.Loop(); {
				for range 100 {
					a.take(tag)
					a.Ack(tag)
					tag++
				}
				a.plan(false)
			}
		})
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
		a.gather(rapid.IntRange(1, 5).Draw(t, "enough"), rapid.IntRange(0, 5).Draw(t, "most"))
		a.keep = rapid.IntRange(0, 10).Draw(t, "keep")
		flush := func(all bool) {
			words, _, left := a.plan(all)
			if all && left > 0 {
				t.Fatalf("%d left of all", left)
			}
			back := uint64(0)
			for _, w := range words {
				switch {
				case w.requeue:
					if w.tag < back {
						t.Fatalf("%d goes back behind %d: their queue has them in another order", w.tag, back)
					}
					back = w.tag
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
				flush(rapid.Bool().Draw(t, "all"))
			}
		}
		flush(true)
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
	if a.gather(3, 0); woken() {
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
		a.plan(true)
	}
	for tag := range uint64(2) {
		a.take(tag + 9)
		a.Ack(tag + 9)
	}
	woken() // by the first
	if a.gather(2, 0); !woken() {
		t.Error("not woken though what is there is enough now")
	}
}

// Else the first of the next acks would wait for a delay that nobody has begun.
func TestWhatAPlanLeftOutCountsNeitherAsNewNorAsEnough(t *testing.T) {
	a := newAcks()
	a.gather(3, 10)
	woken := func() bool {
		select {
		case <-a.wake:
			return true
		default:
			return false
		}
	}
	for tag := range uint64(4) {
		a.take(tag + 1)
	}
	a.Ack(2)
	a.Ack(3)
	if _, _, left := a.plan(false); left != 2 {
		t.Fatalf("%d are left behind the one that is held", left)
	}
	woken()
	if a.Ack(4); !woken() || a.urgent() {
		t.Errorf("not woken by the first of the next, or it is urgent: %t", a.urgent())
	}
	if a.gather(2, 10); woken() {
		t.Error("woken though one is not enough")
	}
}

func TestDeadAcksDropEverything(t *testing.T) {
	a := newAcks()
	a.take(1)
	a.Ack(1)
	a.die()
	a.Ack(1)
	if got, _, _ := a.plan(true); got != nil || a.outstanding() != 0 {
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
		a.Ack(1) // of a handler that ended later: it waits for nobody
	})
}

func TestAFlushWakesWhoSendsAcksAndIsAnsweredOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAcks()
		flushed := make(chan error, 1)
		go func() { flushed <- a.Flush(t.Context()) }()
		<-a.wake
		_, asked, _ := a.plan(false)
		if _, again, _ := a.plan(false); len(asked) != 1 || len(again) != 0 || a.urgent() {
			t.Fatalf("%d are to be answered, and urgent: %v", len(asked), a.urgent())
		}
		asked[0] <- nil
		if err := <-flushed; err != nil {
			t.Error(err)
		}
		a.die() // answers nobody again
	})
}

// What a stop gives back is told once the consumer is cancelled, and so is what was settled before:
// nobody is told before that it was.
func TestNothingIsToldWhileTheConsumerIsToBeCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAcks()
		leaving := true
		a.leaving = func() bool { return leaving }
		for tag := range uint64(4) {
			a.take(tag + 1)
		}
		a.Ack(1)
		a.Release(3)
		flushed := make(chan error, 1)
		go func() { flushed <- a.Flush(t.Context()) }()
		synctest.Wait()
		for _, all := range []bool{false, true} {
			if words, asked, left := a.plan(all); len(words) > 0 || len(asked) > 0 || left == 0 || !a.urgent() {
				t.Errorf("told %v, %d are answered, %d are left", words, len(asked), left)
			}
		}
		leaving = false
		words, asked, left := a.plan(false) // all is told: somebody asked for it
		if !slices.Equal(words, []word{{tag: 1, multiple: true}, {tag: 3, requeue: true}}) || len(asked) != 1 || left != 0 {
			t.Errorf("told %v afterwards, %d are answered, %d are left", words, len(asked), left)
		}
		asked[0] <- nil
		if err := <-flushed; err != nil {
			t.Error(err)
		}
	})
}

// Behind what is given back, a frame each, acks may be dropped as the channel is closed.
func TestWhatAStopGivesBackIsToldBehindTheAcksOfItsLastCalls(t *testing.T) {
	a := newAcks()
	stop, begin := context.WithCancel(t.Context())
	a.stop = stop
	begin()
	plan := func(want []word, left int) {
		t.Helper()
		if words, _, n := a.plan(true); !slices.Equal(words, want) || n != left {
			t.Errorf("told %v, %d are left", words, n)
		}
	}
	a.keep = 3
	for tag := range uint64(6) {
		a.take(tag + 1)
	}
	for _, tag := range []uint64{3, 5, 6} {
		a.Release(tag)
	}
	a.Ack(4)
	plan([]word{{tag: 4}}, 3) // and more than keep are gone through: what waits is kept
	a.Ack(2)
	plan([]word{{tag: 2}}, 3)
	a.Ack(1)
	plan([]word{{tag: 1}}, 3)
	a.letGo()
	plan([]word{{tag: 3, requeue: true}, {tag: 5, requeue: true}, {tag: 6, requeue: true}}, 0)
}

// A stop waits for that.
func TestWhoWaitsForAllToBeSettledIsToldByTheLastAndByTheEnd(t *testing.T) {
	a := newAcks()
	a.take(1)
	a.take(2)
	quiet := func() bool {
		select {
		case <-a.quiet:
			return true
		default:
			return false
		}
	}
	if a.Ack(1); quiet() {
		t.Error("told though one is held")
	}
	if a.Release(2); !quiet() {
		t.Error("not told by the last")
	}
	a.take(3)
	if a.die(); !quiet() {
		t.Error("not told by the end of the session")
	}
}

// The broker of this test sends as long as the prefetch has room, and the keeper tells it of acks
// when they are urgent, not when their delay is over: each such delay would be a stall.
func TestAcksBehindHeldMessagesAreToldBeforeThePrefetchIsUsedUp(t *testing.T) {
	for _, prefetch := range []int{2, 3, 4, 8, 10, 101, 399, 400, 1000, 2000} {
		enough, most := batch(prefetch)
		for _, holds := range []int{1, enough} { // as many may be held, and the next is sent still
			a := newAcks()
			a.gather(enough, most)
			unacked := 0
			for tag := range uint64(10 * prefetch) {
				if unacked == prefetch {
					t.Errorf("prefetch %d, %d held: the broker sends nothing after %d messages", prefetch, holds, tag)
					break
				}
				a.take(tag + 1)
				unacked++
				if tag < uint64(holds) {
					continue
				}
				if a.Ack(tag + 1); a.urgent() {
					_, _, left := a.plan(false)
					unacked = holds + left
				}
			}
		}
	}
}
