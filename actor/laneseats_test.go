package actor

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/task"
	"github.com/stepwell/stepwell/streams"
)

// Retries have the only seat for as long as their calls take. A revoke, and who has the partition
// next, do not wait for that.
func TestWhatIsHaltedDoesNotWaitForASeat(t *testing.T) {
	t.Run("of one caller", func(t *testing.T) { haltedWithoutSeats(t, 1, streams.OrderKey) })
	t.Run("of several, of which some have nothing to do", func(t *testing.T) { haltedWithoutSeats(t, 8, streams.OrderNone) })
}

func haltedWithoutSeats(t *testing.T, atOnce int, order streams.Order) {
	t.Helper()
	gather(t, atOnce, order, takes(0), func(g *gathering) {
		for range atOnce {
			g.seats.Take(nil)
		}
		synctest.Wait() // all callers wait for something to do
		revoked, lost, ours := newOrigin(), newOrigin(), newOrigin()
		g.put(revoked, 1, "a")
		g.put(lost, 2, "a")
		g.put(ours, 3, "a") // the batch is full, and waits for a seat
		synctest.Wait()
		lost.cancel()
		revoked.halt()
		g.Flush()
		synctest.Wait()
		for _, o := range []*origin{revoked, lost} {
			if got := o.with(task.Abandoned); len(got) != 1 {
				t.Errorf("given up of one that ends: %v", got)
			}
		}
		g.want()
		g.put(revoked, 4, "a") // from a worker that was about to put it
		synctest.Wait()
		if got := revoked.with(task.Abandoned); !slices.Equal(got, []int64{1, 4}) {
			t.Errorf("given up: %v", got)
		}
		time.Sleep(5 * time.Second)
		g.seats.Leave()
		synctest.Wait()
		g.want("5.0 3")
	})
}

func TestWhatHasRestedAndIsHaltedDoesNotWaitForASeat(t *testing.T) {
	handle := func(_ context.Context, b *stepwell.Batch) error {
		b.Fail(b.Messages()[0], errUnavailable)
		return nil
	}
	gather(t, 1, streams.OrderKey, handle, func(g *gathering) {
		revoked := newOrigin()
		for offset := range int64(3) {
			g.put(revoked, offset, "a")
		}
		synctest.Wait()
		g.seats.Take(nil)
		g.put(revoked, 3, "a") // behind it
		time.Sleep(time.Minute)
		g.want("0.0 0 1 2")
		revoked.halt()
		g.Flush()
		synctest.Wait()
		if got := revoked.with(task.Abandoned); !slices.Equal(got, []int64{0, 3}) {
			t.Errorf("given up: %v", got)
		}
		g.seats.Leave()
		synctest.Wait()
		g.want("0.0 0 1 2")
	})
}

func TestWhatIsHaltedIsLeftToABatchThatIsCalledWhileAnotherWaitsForASeat(t *testing.T) {
	handle := func(ctx context.Context, b *stepwell.Batch) error {
		if m := b.Messages()[0]; m.ID == "0" && m.Attempt == 1 {
			b.Fail(m, errUnavailable)
			return nil
		}
		task.Sleep(ctx, 10*time.Second)
		return nil
	}
	gather(t, 2, streams.OrderNone, handle, func(g *gathering) {
		failing, revoked := newOrigin(), newOrigin()
		for offset := range int64(3) {
			g.put(failing, offset, "a")
		}
		synctest.Wait()
		g.seats.Take(nil)
		for offset := range int64(3) {
			g.put(revoked, 3+offset, "a")
		}
		time.Sleep(2 * time.Second) // what failed has rested
		g.put(revoked, 6, "a")
		revoked.halt()
		g.Flush()
		synctest.Wait()
		if got := revoked.with(task.Abandoned); len(got) > 0 {
			t.Errorf("given up: %v", got)
		}
		g.seats.Leave()
		time.Sleep(9 * time.Second)
		g.wantLast("10.0 6")
	})
}

// Who looks whether a stream stands still is told of what rests, not of what waits for a seat.
func TestWhatWaitsForASeatIsNotHeldByABatchThatRests(t *testing.T) {
	gather(t, 1, streams.OrderKey, takes(0), func(g *gathering) {
		g.seats.Take(nil)
		o := newOrigin()
		for offset := range int64(3) {
			g.put(o, offset, "a")
		}
		synctest.Wait()
		if n := g.held(); n != 0 {
			t.Errorf("%d messages are held", n)
		}
		g.seats.Leave()
	})
}
