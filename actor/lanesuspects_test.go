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

func TestASuspectIsABatchOfItsOwnAndGoesBeforeOtherPartitions(t *testing.T) {
	gather(t, 1, streams.OrderKey, takes(time.Second), func(g *gathering) {
		suspected, other := newOrigin(), newOrigin()
		for offset := range int64(3) {
			g.put(other, offset, "a")
		}
		synctest.Wait()
		g.put(suspected, 50, "a") // before it, of its key
		g.put(other, 3, "a")
		g.put(other, 4, "a")
		suspected.alone = 51
		g.put(suspected, 51, "a")
		g.put(suspected, 52, "a")
		time.Sleep(4 * time.Second)
		g.want("0.0 0 1 2", "1.0 50", "2.0 51", "3.0 3 4 52")
	})
}

// All suspects of the process wait for the one whose turn it is.
func TestWhatIsBeforeASuspectDoesNotWaitForABatchToFill(t *testing.T) {
	gather(t, 1, streams.OrderKey, takes(0), func(g *gathering) {
		o := newOrigin()
		g.put(o, 1, "a")
		o.alone = 2
		g.put(o, 2, "b")
		synctest.Wait()
		g.want("0.0 1", "0.0 2")
		g.put(o, 3, "a")
		time.Sleep(time.Minute)
		g.want("0.0 1", "0.0 2", "1.0 3")
	})
}

func TestAfterASuspectBatchesFillAsBefore(t *testing.T) {
	for name, end := range map[string]func(*gathering, *origin){
		"it was called": func(g *gathering, _ *origin) { g.Resume() },
		"it was given up": func(g *gathering, o *origin) {
			o.halt()
			g.Flush()
			synctest.Wait()
			g.Resume()
		},
		"it is another's": func(g *gathering, o *origin) {
			o.cancel()
			g.Resume()
		},
	} {
		t.Run(name, func(t *testing.T) {
			gather(t, 1, streams.OrderKey, takes(0), func(g *gathering) {
				suspected, other := newOrigin(), newOrigin()
				suspected.alone = 1
				g.Pause()
				g.put(suspected, 1, "a")
				end(g, suspected)
				synctest.Wait()
				if got := slices.Concat(suspected.with(task.Settled), suspected.with(task.Abandoned)); !slices.Equal(got, []int64{1}) {
					t.Fatalf("the suspect did not come to its end: %v", got)
				}
				g.put(other, 2, "a")
				time.Sleep(500 * time.Millisecond)
				g.put(other, 3, "a")
				time.Sleep(time.Minute)
				g.wantLast("1.0 2 3")
			})
		})
	}
}

func TestASuspectThatIsGivenUpBehindABatchThatRestsHasNobodyHurry(t *testing.T) {
	failing := func(_ context.Context, b *stepwell.Batch) error {
		for _, m := range b.Messages() {
			if m.ID == "0" && m.Attempt == 1 {
				b.Fail(m, errUnavailable) // and is tried again within a second
			}
		}
		return nil
	}
	gather(t, 1, streams.OrderKey, failing, func(g *gathering) {
		suspected, other := newOrigin(), newOrigin()
		for offset := range int64(3) {
			g.put(other, offset, "a")
		}
		synctest.Wait()
		suspected.alone = 50
		g.put(suspected, 50, "a")
		suspected.halt()
		g.Flush()
		synctest.Wait()
		if got := suspected.with(task.Abandoned); !slices.Equal(got, []int64{50}) {
			t.Fatalf("given up: %v", got)
		}
		time.Sleep(1500 * time.Millisecond)
		g.put(other, 3, "a")
		time.Sleep(500 * time.Millisecond)
		g.put(other, 4, "a")
		time.Sleep(time.Minute)
		g.wantLast("2.5 3 4")
	})
}
