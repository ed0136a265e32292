package operations

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stepwell/stepwell/embedded/memory"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/records"
)

// counting counts who asks for a lease.
type counting struct {
	queue.Broker
	asked *atomic.Int64
}

func (c counting) Lease(ctx context.Context, name string) (queue.Lease, error) {
	c.asked.Add(1)
	return c.Broker.Lease(ctx, name)
}

func TestWhoCouldHaveTheLeaseAsksForItOnceToKnowThat(t *testing.T) {
	candidates(t, func(t *testing.T, b *memory.Broker, one, _ *Election) {
		var asked atomic.Int64
		one.Broker = counting{b, &asked}
		for range 3 {
			if why := one.Impossible(t.Context()); why != nil {
				t.Error(why)
			}
		}
		if n := asked.Load(); n != 1 {
			t.Errorf("it asked %d times", n)
		}
	})
}

// A leader writes records, and could not.
func TestUnderAnAlarmNobodyBeginsToLeadAndThatPassesByItself(t *testing.T) {
	candidates(t, func(t *testing.T, b *memory.Broker, one, _ *Election) {
		b.Block(true)
		one.Lead(t.Context(), func(context.Context, int64) { t.Error("it leads") })
		if why := one.Refused(); why != nil {
			t.Errorf("it may lead, and does not now: %v", why)
		}
		b.Block(false)
		if term, _, _ := leads(t, one); term != 1 {
			t.Errorf("after the alarm it leads in term %d", term)
		}
	})
}

func TestThatAnotherHasTheLeaseIsNoReasonToSay(t *testing.T) {
	candidates(t, func(t *testing.T, _ *memory.Broker, one, two *Election) {
		leads(t, one)
		two.Lead(t.Context(), func(context.Context, int64) { t.Error("two lead") })
		if why := two.Refused(); why != nil {
			t.Errorf("%v", why)
		}
	})
}

// It would lead in a term that others had: what they write counts as its own.
func TestWhoCannotReadWhichTermItIsDoesNotLeadAndSaysSo(t *testing.T) {
	candidates(t, func(t *testing.T, _ *memory.Broker, one, two *Election) {
		torn := `{"term":"seven"}`
		err := two.Records.Change(t.Context(), leaderKind, leaderName, func(r records.Record) (records.Record, error) {
			r.Value = []byte(torn)
			return r, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		one.Lead(t.Context(), func(_ context.Context, term int64) { t.Errorf("it leads in term %d", term) })
		if one.Refused() == nil {
			t.Error("why nobody leads is not known")
		}
		if r, _, err := one.Records.Latest(t.Context(), leaderKind, leaderName); err != nil || string(r.Value) != torn {
			t.Errorf("%s, %v", r.Value, err)
		}
		two.Lead(t.Context(), func(context.Context, int64) { t.Error("the other leads") })
	})
}

// Else what is asked for next waits in the records for a process that may run it, and there may be
// none.
func TestAnAlarmSaysNothingOfWhetherAProcessMayLead(t *testing.T) {
	candidates(t, func(t *testing.T, b *memory.Broker, one, _ *Election) {
		one.Broker = refusing{Broker: b}
		b.Block(true)
		if why := one.Impossible(t.Context()); why != nil {
			t.Errorf("nobody knows: %v", why)
		}
		b.Block(false)
		if why := one.Impossible(t.Context()); why == nil {
			t.Error("that it may not lead is never found out")
		}
		b.Block(true)
		one.Lead(t.Context(), func(context.Context, int64) { t.Error("it leads") })
		if why := one.Impossible(t.Context()); why == nil {
			t.Error("that it may not lead is forgotten")
		}
	})
}
