package rabbit

import (
	"context"
	"errors"
	"hash/maphash"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// reading starts a window that was promised so many messages; feed is its consumer's channel.
func reading(t *testing.T, promised int, emptied func() (bool, error)) (w *window, feed chan amqp.Delivery) {
	t.Helper()
	w = newWindow(&lease{queue: "q"}, promised, 1<<20, maphash.MakeSeed())
	feed = make(chan amqp.Delivery)
	ctx, cancel := context.WithCancel(t.Context())
	w.reader.Go(func() { w.read(ctx, feed, promised, emptied) })
	t.Cleanup(func() {
		cancel()
		close(feed)
		w.reader.Wait()
	})
	return w, feed
}

func TestAQueueThatLooksEmptyIsBelievedOnlyAfterWhatIsUnderWayHasCome(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, feed := reading(t, 2, func() (bool, error) { return true, nil })
		feed <- amqp.Delivery{DeliveryTag: 1, MessageId: "first"}
		time.Sleep(time.Second) // the broker has sent the second one, and it is on its way
		feed <- amqp.Delivery{DeliveryTag: 2, MessageId: "second"}
		for _, want := range []string{"first", "second"} {
			if d := <-w.Deliveries(); d.ID != want {
				t.Fatalf("%q came, not %q", d.ID, want)
			}
		}
	})
}

func TestAWindowWhoseQueueHasLookedEmptyForLongEndsAndSaysThatItIsShort(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		w, feed := reading(t, 3, func() (bool, error) {
			looks++
			return looks != 3, nil // one look in between sees a message that came back
		})
		feed <- amqp.Delivery{DeliveryTag: 1}
		<-w.Deliveries()
		if d, ok := <-w.Deliveries(); ok {
			t.Fatalf("a message from nowhere: %q", d.ID)
		}
		if looks != 3+windowLooks || !errors.Is(w.lost, errWindowShort) {
			t.Errorf("ended after %d looks, with %v", looks, w.lost)
		}
	})
}

func TestAWindowToWhichNothingComesEndsThoughNobodyKnowsWhatIsThere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, _ := reading(t, 1, func() (bool, error) { return false, nil })
		began := time.Now()
		if _, ok := <-w.Deliveries(); ok || !errors.Is(w.lost, errWindowShort) || time.Since(began) != windowSilence {
			t.Errorf("it ends with %v, after %s", w.lost, time.Since(began))
		}
	})
}

func TestAWindowWhoseConsumerTheBrokerEndsSaysThatItIsNotAll(t *testing.T) {
	w, feed := newWindow(&lease{queue: "q"}, 2, 1<<20, maphash.MakeSeed()), make(chan amqp.Delivery, 1)
	feed <- amqp.Delivery{DeliveryTag: 1}
	close(feed)
	w.read(t.Context(), feed, 2, nil)
	if got := len(w.Deliveries()); got != 1 || !errors.Is(w.lost, errWindowLost) {
		t.Errorf("%d came, and the window's end: %v", got, w.lost)
	}
}

func TestAWindowWhoseQueueCannotBeLookedAtEndsWithTheReason(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		want := errors.New("no such queue")
		w, _ := reading(t, 1, func() (bool, error) { return false, want })
		if _, ok := <-w.Deliveries(); ok || !errors.Is(w.lost, want) {
			t.Errorf("the window's end: %v", w.lost)
		}
	})
}
