package deadset_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stepwell/stepwell/deadset"
	"github.com/stepwell/stepwell/internal/filter"
	"github.com/stepwell/stepwell/internal/queue"
)

// One process remembers the pages while another acts on them: after each act it tells what there
// is.
func TestAProcessThatRemembersPagesOnRabbitMQTellsWhatAnotherMadeOfThem(t *testing.T) {
	onRabbitMQ(t, 4300, func(t *testing.T, url string, b queue.Broker, cfg deadset.Config) {
		cfg.WalkBytes = 600 << 10 // less than all of them are: looks share nothing
		acts := withPages(t, url, cfg, 8)
		another := cfg
		another.Broker, _ = runRabbit(t, url)
		another.Index = deadset.NewIndex(64 << 20)
		s := deadset.New(another)
		defer s.Close(t.Context())
		ids := from(0, 4300)
		is := func(after string, gone ...string) {
			t.Helper()
			ids = slices.DeleteFunc(ids, func(id string) bool { return slices.Contains(gone, id) })
			causes, err := s.Groups(t.Context(), filter.Filter{})
			if err != nil || causes.Depth != len(ids) || !causes.Complete || len(causes.Groups) != 1 || causes.Groups[0].Count != len(ids) {
				t.Fatalf("after %s: %+v, %v", after, causes, err)
			}
			for _, id := range []string{ids[0], ids[len(ids)/2], ids[len(ids)-1]} {
				if m, err := s.Message(t.Context(), id); err != nil || m.ID != id || m.Copies != 1 || m.Value == nil {
					t.Errorf("after %s: %s: %+v, %v", after, id, m.Entry, err)
				}
			}
			for _, id := range gone {
				if m, err := s.Message(t.Context(), id); !errors.Is(err, deadset.ErrNotFound) {
					t.Errorf("after %s: %s is gone: %+v, %v", after, id, m.Entry, err)
				}
			}
		}
		sorted(t, acts, "op_1")
		is("a sort")
		if r, err := acts.Replay(t.Context(), 5); err != nil || r.Done != 5 {
			t.Fatalf("%+v, %v", r, err)
		}
		is("a replay", from(0, 5)...)
		sel := deadset.Selection{Filter: filter.IDs([]string{"t:0:2500", "t:0:4299"}), Before: time.Now(), Operation: "op_2"}
		if r, err := choose(t, acts, sel).Delete(t.Context(), nil, everything); err != nil || r.Done != 2 {
			t.Fatalf("%+v, %v", r, err)
		}
		is("a delete", "t:0:2500", "t:0:4299")
		buryFrom(t, b, cfg.Queue, 4300, 1)
		sorted(t, acts, "op_3") // the last page has as many as before the delete
		ids = append(ids, "t:0:4300")
		is("another sort")
		n := len(ids)
		if r, err := acts.Delete(t.Context(), n); err != nil || r.Done != n {
			t.Fatalf("%+v, %v", r, err)
		}
		buryFrom(t, b, cfg.Queue, 10_000, n)
		sorted(t, acts, "op_4")
		ids = from(10_000, n)
		is("all were deleted, and as many died and were sorted")
	})
}
