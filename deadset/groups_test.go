package deadset_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell/deadset"
	"github.com/stepwell/stepwell/embedded/memory"
	"github.com/stepwell/stepwell/internal/filter"
)

// cause names the i-th of many errors in letters: digits would be the same <n> in all of them.
func cause(i int) string {
	return "away: " + string([]byte{byte('a' + i/676%26), byte('a' + i/26%26), byte('a' + i%26)})
}

// Errors that are all different must not hide the one that matters, which came after them.
func TestOfMoreThanAThousandCausesTheLargestAreNamedAndTheRestIsOne(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		const rare, outages, each = 1100, 2, 5
		oldest, newest := time.Now().Add(-3*time.Hour), time.Now().Add(-30*time.Second)
		for i := range rare {
			ago := time.Hour
			switch i {
			case rare - 2:
				ago = time.Since(oldest)
			case rare - 1:
				ago = time.Since(newest)
			}
			buryAll(t, b, died(cause(i), cause(i), ago))
		}
		for i := range outages * each {
			buryAll(t, b, died("x"+cause(i), "outage "+cause(i%outages), 10*time.Minute))
		}
		s := deadset.New(deadset.Config{App: "a", Stream: "s", Queue: dead, Instant: ready, Broker: b, WalkBytes: 8 << 20, Index: deadset.NewIndex(1 << 20)})
		got, err := s.Groups(t.Context(), filter.Filter{})
		if err != nil || got.Depth != rare+outages*each || !got.Complete || len(got.Groups) != 1000 {
			t.Fatalf("%d groups of %+v, %v", len(got.Groups), got.Span, err)
		}
		sum := 0
		for _, g := range got.Groups {
			sum += g.Count
		}
		if sum != got.Depth || !slices.IsSortedFunc(got.Groups, func(a, b *deadset.Group) int { return b.Count - a.Count }) {
			t.Errorf("the groups have %d of %d messages, or are in no order", sum, got.Depth)
		}
		rest := got.Groups[0]
		if others := rare - (999 - outages); rest.Group != "" || rest.Error != "all other causes" || rest.Reason != "" || rest.Count != others || rest.Keys != others {
			t.Errorf("the rest: %+v", rest)
		}
		if !rest.FirstDiedAt.Equal(oldest) || !rest.LastDiedAt.Equal(newest) || rest.ExampleID != cause(rare-1) || rest.Minutes[59] != 1 {
			t.Errorf("the rest from %v to %v, such as %s: %v", rest.FirstDiedAt, rest.LastDiedAt, rest.ExampleID, rest.Minutes)
		}
		for i, g := range got.Groups[1 : 1+outages] {
			if g.Count != each || g.Error != "outage "+cause(i) || g.Group == "" {
				t.Errorf("an outage: %+v", g)
			}
		}
		if slices.ContainsFunc(got.Groups[1:], func(g *deadset.Group) bool { return g.Group == "" || g.Error == rest.Error }) {
			t.Error("another group has no name")
		}
		theRestIsNoChoice(t, s, rest)
		// Who wants one of the rest finds its cause on the message.
		of := messageGroup(t, s, rest.ExampleID)
		if only, err := s.Groups(t.Context(), where(t, "group", of)); err != nil || len(only.Groups) != 1 || only.Groups[0].Count != 1 || only.Groups[0].Group != of {
			t.Errorf("by the cause of one of the rest: %+v, %v", only.Groups, err)
		}
		sel := deadset.Selection{Filter: where(t, "group", got.Groups[1].Group), Before: time.Now()}
		if r, err := choose(t, s, sel).Replay(t.Context(), nil, everything); err != nil || r.Done != each || depth(t, b, ready) != each {
			t.Errorf("a replay of the outage: %+v, %v", r, err)
		}
	})
}

// theRestIsNoChoice says that what stands for the rest chooses nothing, and not everything.
func theRestIsNoChoice(t *testing.T, s *deadset.Set, rest *deadset.Group) {
	t.Helper()
	of, err := filter.Parse(map[string]string{"group": rest.Group}, time.Now())
	if err == nil || !of.IsZero() {
		t.Errorf("the rest is chosen by its name: %s, %v", of, err)
	}
	if _, err := s.Choose(deadset.Selection{Filter: of, Before: time.Now()}); err == nil {
		t.Error("it would be replayed, or all would")
	}
}

func messageGroup(t *testing.T, s *deadset.Set, id string) string {
	t.Helper()
	m, err := s.Message(t.Context(), id)
	synctest.Wait() // all is given back
	if err != nil {
		t.Fatal(err)
	}
	return m.Group
}

func TestAThousandCausesAreAllNamed(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		for i := range 1000 {
			buryAll(t, b, died(cause(i), cause(i), time.Hour))
		}
		s := deadset.New(deadset.Config{App: "a", Stream: "s", Queue: dead, Instant: ready, Broker: b, WalkBytes: 8 << 20, Index: deadset.NewIndex(1 << 20)})
		got, err := s.Groups(t.Context(), filter.Filter{})
		if err != nil || len(got.Groups) != 1000 || slices.ContainsFunc(got.Groups, func(g *deadset.Group) bool { return g.Group == "" || g.Count != 1 }) {
			t.Errorf("%d groups, %v", len(got.Groups), err)
		}
	})
}
