package streams

import (
	"slices"
	"testing"
	"time"
)

func TestAnAskToLookForATopicIsKeptUntilItsTurn(t *testing.T) {
	t.Parallel()
	h, now := newHealer(), time.Now()
	due := func(after time.Duration, want ...string) {
		t.Helper()
		if got := h.due(now.Add(after)); !slices.Equal(got, want) {
			t.Errorf("after %s: %v, want %v", after, got, want)
		}
	}
	due(0)
	h.ask("b")
	h.ask("a")
	due(0, "a", "b")
	h.ask("a") // while it is looked for: about what was before
	h.done("a", now)
	due(0, "b")
	h.ask("a")
	due(healInterval, "b")
	due(healInterval+1, "a", "b")
	h.done("a", now.Add(healInterval+1))
	h.done("b", now.Add(3*healInterval))
	if len(h.healed) != 1 || len(h.wanted) != 0 {
		t.Errorf("keeps %v %v", h.healed, h.wanted)
	}
}
