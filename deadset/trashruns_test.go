package deadset_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell/deadset"
	"github.com/stepwell/stepwell/embedded/memory"
	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/queue"
)

// makeRun makes pages of a trash, and puts messages of an operation into the last of them.
func makeRun(t *testing.T, b *memory.Broker, first, last, n int, operation string) {
	t.Helper()
	var specs []queue.Spec
	for k := first; k <= last; k++ {
		specs = append(specs, queue.Spec{Name: deadset.TrashOf(dead, keep, k), Kind: queue.DeadSet, TTL: keep})
	}
	if err := b.Declare(t.Context(), specs); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		m := deadOf(1000+i, time.Now()).Encode()
		m.Headers[envelope.Moved], m.Headers[envelope.Place] = operation, time.Now().UnixMicro()+int64(i)
		put(t, b, deadset.TrashOf(dead, keep, last), m)
	}
}

// looked is a broker at whose trash somebody looks while pages of it are made.
type looked struct {
	queue.Broker
	look func()
}

func (l looked) Prove(ctx context.Context, specs []queue.Spec) (int, error) {
	n, err := l.Broker.Prove(ctx, specs)
	l.look()
	return n, err
}

func TestALookThatFindsTheRunsOfATrashTheOtherWayRoundDisturbsNoDelete(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		makeRun(t, b, 256, 300, 3, "op_0")
		bury(t, b, 5)
		var s *deadset.Set
		s = thrown(looked{b, func() { trashed(t, s); synctest.Wait() }}, 64)
		if done, err := throw(t, s, everythingOf("op_1")); done != 5 || err != nil {
			t.Errorf("%d deleted, %v", done, err)
		}
		if got := trashed(t, s); len(got) != 8 {
			t.Errorf("in the trash: %v", got)
		}
	})
}

// What a process published late, that had lost its lease, lies in another page than what was
// published in its place.
func TestWhatIsTwiceInATrashComesBackOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		makeRun(t, b, 0, 0, 3, "op_0")
		makeRun(t, b, 1, 1, 3, "op_0")
		s := roomy(b)
		restore(t, s, everythingOf("op_1"))
		synctest.Wait()
		if got := listed(t, s); len(got) != 3 {
			t.Errorf("restored: %v", got)
		}
		synctest.Wait()
		if got := trashed(t, s); len(got) > 0 {
			t.Errorf("still in the trash: %v", got)
		}
	})
}
