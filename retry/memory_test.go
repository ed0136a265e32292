package retry

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stepwell/stepwell"
)

func number(n int) try { return tryOf(&stepwell.Message{ID: fmt.Sprint("t:0:", n), Attempt: 1}) }

func mustNotRepeat(t testing.TB) func(bool) {
	return func(bool) { t.Error("repeat called for a try that is new") }
}

func TestARepeatWaitsForTheRunningTryAndLearnsHowItEnded(t *testing.T) {
	for _, settled := range []bool{true, false} {
		t.Run(fmt.Sprint("settled ", settled), func(t *testing.T) {
			m := newMemory(10)
			if !m.begin(number(1), mustNotRepeat(t)) {
				t.Fatal("a first try is no repeat")
			}
			var told []bool
			for range 2 {
				if m.begin(number(1), func(ok bool) { told = append(told, ok) }) {
					t.Fatal("two of one try run at once")
				}
			}
			if len(told) != 0 {
				t.Fatal("told before the end")
			}
			m.end(number(1), place{}, settled)
			if len(told) != 2 || told[0] != settled || told[1] != settled {
				t.Errorf("told %v", told)
			}
			again := m.begin(number(1), func(bool) {})
			if again == settled {
				t.Errorf("after the end it is new: %v", again)
			}
		})
	}
}

func TestTriesDifferInIDTimeReplaysAndAttempt(t *testing.T) {
	a := stepwell.Message{ID: "t:0:1", Replays: 1, Attempt: 2}
	all := map[try]bool{tryOf(&a): true}
	for _, b := range []stepwell.Message{{ID: "t:0:2", Replays: 1, Attempt: 2}, {ID: "t:0:1", Replays: 2, Attempt: 1}, {ID: "t:0:1", Replays: 2, Attempt: 2}, {ID: "t:0:1", Replays: 1, Attempt: 3}, {ID: "t:0:1", Time: time.UnixMilli(1), Replays: 1, Attempt: 2}} {
		all[tryOf(&b)] = true
	}
	if len(all) != 6 {
		t.Errorf("%d of 6 tries told apart", len(all))
	}
}

func TestTheMemoryKeepsTheLastSettledAndNoMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 20).Draw(t, "limit")
		m := newMemory(limit)
		var settled []int
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			n := rapid.IntRange(0, 40).Draw(t, "try")
			where := place{byte(n % 3)}
			if rapid.IntRange(0, 15).Draw(t, "forget") == 0 {
				m.forget(where)
				settled = keep(settled, func(other int) bool { return other%3 != n%3 })
				continue
			}
			known := len(keep(settled, func(other int) bool { return other == n })) > 0
			if m.begin(number(n), func(bool) {}) == known {
				t.Fatalf("try %d: known %v, with %v settled last", n, known, settled)
			}
			if !known {
				m.end(number(n), where, true)
				settled = append(settled, n)
				settled = settled[max(0, len(settled)-limit):]
			}
			if len(m.settled) != len(settled) || len(m.ring) > limit || len(m.running) != 0 {
				t.Fatalf("%d settled, ring of %d, %d running", len(m.settled), len(m.ring), len(m.running))
			}
		}
	})
}

func keep(all []int, which func(int) bool) (kept []int) {
	for _, n := range all {
		if which(n) {
			kept = append(kept, n)
		}
	}
	return kept
}

func TestForgettingAPartitionLeavesTheOthers(t *testing.T) {
	m := newMemory(10)
	for n, p := range []place{placeOf("a", 1), placeOf("a", 2), placeOf("b", 1)} {
		m.begin(number(n), mustNotRepeat(t))
		m.end(number(n), p, true)
	}
	m.forget(placeOf("a", 1))
	for n, want := range []bool{true, false, false} {
		if m.begin(number(n), func(bool) {}) != want {
			t.Errorf("try %d is new: %v", n, !want)
		}
	}
}

func BenchmarkMemory(b *testing.B) {
	m := newMemory(DefaultRemember)
	message := stepwell.Message{ID: "orders.v1:12:", Attempt: 2}
	for n := range b.N {
		message.Replays = n
		t := tryOf(&message)
		m.begin(t, func(bool) {})
		m.end(t, place{}, true)
	}
}
