package rabbit

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/stepwell/stepwell/internal/queue"
)

// walkOf returns a running broker with count messages in a dead set, and its name.
func walkOf(t *testing.T, url string, count int) (*Broker, names) {
	t.Helper()
	n := newNames(t, url)
	b, _ := run(t, Config{URLs: []string{url}})
	declare(t, b, n.specs())
	if count > 0 {
		publish(t, b, n.dead, 0, count)
	}
	depthIs(t, b, n.dead, count)
	return b, n
}

func leaseOf(t *testing.T, b *Broker, name string) queue.Lease {
	t.Helper()
	var l queue.Lease
	eventually(t, 10*time.Second, "the lease to be free", func() bool {
		var err error
		l, err = b.Lease(t.Context(), name)
		if err != nil && !errors.Is(err, queue.ErrLeased) {
			t.Fatalf("Lease: %v", err)
		}
		return err == nil
	})
	t.Cleanup(l.Release)
	return l
}

// seen is a window that was read to its end.
type seen struct {
	queue.Window
	all []queue.Delivery
}

func windowOf(t *testing.T, l queue.Lease, most int) seen {
	t.Helper()
	return windowOfBytes(t, l, most, 64<<20)
}

func windowOfBytes(t *testing.T, l queue.Lease, most, bytes int) seen {
	t.Helper()
	w, err := l.Window(within(t, 20*time.Second), most, bytes)
	if err != nil {
		t.Fatalf("Window: %v", err)
	}
	all, err := queue.Gather(within(t, 20*time.Second), w)
	if err != nil {
		t.Fatalf("%d messages of a window of %d: %v", len(all), most, err)
	}
	return seen{w, all}
}

func closeWindow(t *testing.T, w queue.Window, want int) {
	t.Helper()
	depth, err := w.Close(within(t, 20*time.Second))
	if err != nil || depth != want {
		t.Fatalf("Close: depth %d, not %d, error %v", depth, want, err)
	}
}

func isFrom(t *testing.T, w seen, first, count int) {
	t.Helper()
	if got := len(w.all); got != count {
		t.Fatalf("%d messages in the window, not %d", got, count)
	}
	for i, d := range w.all {
		if want := numbered(first + i).ID; d.ID != want {
			t.Fatalf("message %d of the window is %s, not %s", i, d.ID, want)
		}
	}
}

func TestOrderIsTheSameAfterThirtyWalksOfManySizes(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		b, n := walkOf(t, url, 3000)
		l := leaseOf(t, b, n.dead)
		for i := range 30 {
			most := []int{10, 500, 2000, 1, 37}[i%5]
			w := windowOf(t, l, most)
			isFrom(t, w, 0, most)
			closeWindow(t, w, 3000)
		}
	})
}

func TestAckedMessagesLeaveAndTheRestStaysInOrder(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		b, n := walkOf(t, url, 100)
		l := leaseOf(t, b, n.dead)
		w := windowOf(t, l, 8)
		for _, d := range w.all {
			d.Ack()
		}
		closeWindow(t, w, 92)
		w = windowOf(t, l, 10)
		isFrom(t, w, 8, 10)
		w.all[3].Ack()
		w.all[4].Release()
		closeWindow(t, w, 91)
		w = windowOf(t, l, 2000)
		if got := w.all[3].ID; len(w.all) != 91 || got != numbered(12).ID {
			t.Errorf("%d left, the fourth is %s", len(w.all), got)
		}
		closeWindow(t, w, 91)
		publish(t, b, n.dead, 200, 210)
		w = windowOf(t, l, 2000)
		if len(w.all) != 101 || w.Depth() != 101 || w.all[100].ID != numbered(209).ID {
			t.Errorf("%d messages, depth %d", len(w.all), w.Depth())
		}
		for _, d := range w.all {
			d.Ack()
		}
		closeWindow(t, w, 0)
		w = windowOf(t, l, 10)
		isFrom(t, w, 0, 0)
		closeWindow(t, w, 0)
	})
}

func TestMessagesThatArriveDuringAWalkAreKept(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		b, n := walkOf(t, url, 20)
		w := windowOf(t, leaseOf(t, b, n.dead), 20)
		publish(t, b, n.dead, 20, 50)
		for _, d := range w.all[:5] {
			d.Ack()
		}
		if depth, err := w.Close(t.Context()); err != nil || depth < 15 || depth > 45 {
			t.Errorf("Close: %d, %v", depth, err)
		}
		depthIs(t, b, n.dead, 45)
	})
}

func TestSecondWalkerIsToldThatThereIsOne(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		b, n := walkOf(t, url, 1)
		other, _ := run(t, Config{URLs: []string{url}})
		first := leaseOf(t, b, n.dead)
		for _, who := range []*Broker{b, other} {
			if _, err := who.Lease(t.Context(), n.dead); !errors.Is(err, queue.ErrLeased) {
				t.Errorf("while another has it: %v", err)
			}
		}
		first.Release()
		first.Release()
		leaseOf(t, other, n.dead)
	})
}

func TestWalkerThatDiesLeavesLeaseAndMessages(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		n := newNames(t, url)
		proxy := newProxy(t, url)
		b, _ := run(t, Config{URLs: []string{url}})
		dies, _ := run(t, Config{URLs: []string{proxy.url}})
		declare(t, b, n.specs())
		publish(t, b, n.dead, 0, 100)
		w := windowOf(t, leaseOf(t, dies, n.dead), 10)
		proxy.cut()
		if _, err := w.Close(t.Context()); !errors.Is(err, queue.ErrUnavailable) {
			t.Errorf("Close after the connection is gone: %v", err)
		}
		w = windowOf(t, leaseOf(t, b, n.dead), 10)
		isFrom(t, w, 0, 10)
		closeWindow(t, w, 100)
	})
}

func TestAWindowThatIsHandedFewerThanThereAreSaysSo(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		var came atomic.Int32
		const basic, deliver = 60, 60
		proxy := newThief(t, url, func(class, method uint16) bool {
			return class == basic && method == deliver && came.Add(1) > 4
		})
		n := newNames(t, url)
		b, _ := run(t, Config{URLs: []string{proxy.url}})
		declare(t, b, n.specs())
		publish(t, b, n.dead, 0, 10)
		depthIs(t, b, n.dead, 10)
		w := windowOf(t, leaseOf(t, b, n.dead), 10)
		isFrom(t, w, 0, 4)
		if depth, err := w.Close(within(t, time.Minute)); depth != 10 || !errors.Is(err, queue.ErrUnavailable) {
			t.Errorf("Close: %d, %v", depth, err)
		}
	})
}

// Whoever uses a closed channel is told 504, which says nothing of the reason.
func TestAWindowWhoseChannelTheBrokerClosedSaysWhyAndNoneOfItsAcksCounts(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		b, n := walkOf(t, url, 300)
		l := leaseOf(t, b, n.dead)
		w := windowOf(t, l, 300)
		ch := w.Window.(*window).ch
		if err := ch.Ack(99_999, false); err != nil { // a tag that there is not
			t.Fatal(err)
		}
		eventually(t, 10*time.Second, "the broker closes the channel", ch.IsClosed)
		for _, d := range w.all[:294] {
			d.Ack()
		}
		depth, err := w.Close(within(t, 20*time.Second))
		if depth != 300 || err == nil || !strings.Contains(err.Error(), "294 acks") || !strings.Contains(err.Error(), "unknown delivery tag") {
			t.Errorf("Close: %d, %v", depth, err)
		}
		w = windowOf(t, l, 300)
		isFrom(t, w, 0, 300)
		closeWindow(t, w, 300)
	})
}

func TestLeaseGivenBackWithAnOpenWindowLeavesEverythingInTheQueue(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		b, n := walkOf(t, url, 10)
		l := leaseOf(t, b, n.dead)
		windowOf(t, l, 5)
		l.Release()
		depthIs(t, b, n.dead, 10)
	})
}

func TestWindowHoldsNoMoreThanItsBytes(t *testing.T) {
	inTurn(t, func(t *testing.T, url string) {
		b, n := walkOf(t, url, 0)
		const count, each = 2000, 60_000
		c := newTally(count)
		p := b.Publisher("test")
		for i := range count {
			m := numbered(i)
			m.Body = make([]byte, each)
			p.Publish(t.Context(), n.dead, m, c.done)
		}
		c.wait(t, 2*time.Minute)
		l := leaseOf(t, b, n.dead)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		w := windowOfBytes(t, l, 2000, 10*each+each/2)
		isFrom(t, w, 0, 10)
		eventually(t, time.Minute, "the rest to have come and gone", func() bool {
			depth, err := b.Depth(t.Context(), n.dead)
			return err == nil && depth == 0
		})
		runtime.GC()
		runtime.ReadMemStats(&after)
		if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 20<<20 {
			t.Errorf("the walk holds %d bytes", grown)
		}
		since := time.Now()
		closeWindow(t, w, count)
		t.Logf("all of it back after %s", time.Since(since))
		w = windowOfBytes(t, l, 10, 1)
		isFrom(t, w, 0, 1)
		closeWindow(t, w, count)
	})
}

func TestWindowOutOfRangeOrBesideAnotherIsRefused(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		b, n := walkOf(t, url, 1)
		l := leaseOf(t, b, n.dead)
		for _, most := range []int{-1, 0} {
			if _, err := l.Window(t.Context(), most, 1); err == nil {
				t.Errorf("a window of %d", most)
			}
		}
		w := windowOf(t, l, 1)
		if _, err := l.Window(t.Context(), 1, 1); err == nil {
			t.Error("a window beside another")
		}
		closeWindow(t, w, 1)
	})
}

func TestLeaseOfABrokerThatIsAwayIsUnavailable(t *testing.T) {
	b, _ := run(t, Config{URLs: []string{"amqp://127.0.0.1:1"}})
	_, err := b.Lease(within(t, time.Second), "q")
	if !errors.Is(err, queue.ErrUnavailable) {
		t.Errorf("Lease: %v", err)
	}
	if _, err := b.Depth(within(t, 100*time.Millisecond), "q"); !errors.Is(err, queue.ErrUnavailable) {
		t.Errorf("Depth: %v", err)
	}
	t.Log(fmt.Sprint(err))
}

func TestAcksThatTheBrokerDidNotTakeAreSentAgain(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		b, n := walkOf(t, url, 30)
		twin := numbered(2)
		publish(t, b, n.dead, 2, 3) // the same as one that is acked
		l := leaseOf(t, b, n.dead)
		w := windowOf(t, l, 10)
		for i, d := range w.all {
			if i < 3 {
				w.Window.(*window).acks.note(d.Tag) // as an ack that a leader took with it
			} else {
				d.Ack()
			}
		}
		closeWindow(t, w.Window, 21)
		w = windowOf(t, l, 100)
		if len(w.all) != 21 || w.all[0].ID != numbered(10).ID || w.all[20].ID != twin.ID {
			t.Errorf("left: %d messages, the first is %s, the last %s", len(w.all), w.all[0].ID, w.all[20].ID)
		}
		closeWindow(t, w.Window, 21)
	})
}

func TestAMessageThatDiffersInItsBodyAloneIsNotTakenForOneThatWasAcked(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		b, n := walkOf(t, url, 0)
		c := newTally(3)
		p := b.Publisher("test")
		for _, body := range []string{"left out", "acked", "acked, and its ack is lost"} {
			p.Publish(t.Context(), n.dead, queue.Message{ID: "of all", Body: []byte(body)}, c.done)
		}
		c.wait(t, 20*time.Second)
		depthIs(t, b, n.dead, 3)
		l := leaseOf(t, b, n.dead)
		w := windowOf(t, l, 3)
		w.all[1].Ack()
		w.Window.(*window).acks.note(w.all[2].Tag)
		closeWindow(t, w.Window, 1)
		w = windowOf(t, l, 3)
		if len(w.all) != 1 || string(w.all[0].Body) != "left out" {
			t.Errorf("left: %d messages, the first is %q", len(w.all), w.all[0].Body)
		}
		closeWindow(t, w.Window, 1)
	})
}

// Some of those that are the same may have been on their way when the window was closed.
func TestAnAckOfAMessageWithoutAnIDIsNotSentAgainAndTheWalkSaysSo(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		b, n := walkOf(t, url, 0)
		c := newTally(3)
		p := b.Publisher("test")
		for range 3 {
			p.Publish(t.Context(), n.dead, queue.Message{Body: []byte("the same")}, c.done)
		}
		c.wait(t, 20*time.Second)
		depthIs(t, b, n.dead, 3)
		w := windowOf(t, leaseOf(t, b, n.dead), 1)
		w.Window.(*window).acks.note(w.all[0].Tag) // as an ack that a leader took with it
		depth, err := w.Close(within(t, 20*time.Second))
		if depth != 3 || err == nil || !strings.Contains(err.Error(), "have no id") {
			t.Errorf("%d messages, %v", depth, err)
		}
	})
}

func TestAWalkOfADeadSetThatWasNotDeclaredHereLooksHowManyReturnsItBears(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		_, n := walkOf(t, url, 1)
		plain := newNames(t, url)
		raw(t, url, func(ch *amqp.Channel) error {
			_, err := ch.QueueDeclare(plain.dead, true, false, false, false, amqp.Table{"x-queue-type": "quorum"})
			return err
		})
		for _, check := range []bool{false, true} {
			b, stop := run(t, Config{URLs: []string{url}, DeclareOnlyCheck: check}) // as without retries: nothing is declared
			for name, want := range map[string]int64{n.dead: returnLimit, plain.dead: defaultReturnLimit, plain.instant: defaultReturnLimit} {
				l := leaseOf(t, b, name)
				if w, err := l.Window(within(t, 10*time.Second), 1, 1); err == nil {
					closeWindow(t, w, w.Depth())
				} else if !errors.Is(err, queue.ErrMissing) {
					t.Errorf("a window of %s: %v", name, err)
				}
				l.Release()
				if got := b.ReturnLimit(name); got != want {
					t.Errorf("%s is taken to bear %d returns, not %d", name, got, want)
				}
			}
			if _, err := b.Depth(t.Context(), plain.instant); !errors.Is(err, queue.ErrMissing) {
				t.Errorf("a walk made the queue: %v", err)
			}
			stop()
		}
	})
}
