package inbox

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/envelope"
)

func number(n int) try { return try{uint64(n)} }

// repeating is a repeat that is a function.
type repeating func(settled bool)

func (f repeating) repeated(settled bool) { f(settled) }
func (f repeating) isOver() bool          { return false }

func mustNotRepeat(t testing.TB) repeat {
	return repeating(func(bool) { t.Error("repeat called for a try that is new") })
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
				if m.begin(number(1), repeating(func(ok bool) { told = append(told, ok) })) {
					t.Fatal("two of one try run at once")
				}
			}
			if len(told) != 0 {
				t.Fatal("told before the end")
			}
			if !m.knows(number(1)) || m.knows(number(2)) {
				t.Error("of two tries it knows another one than that which runs")
			}
			m.end(number(1), settled)
			if len(told) != 2 || told[0] != settled || told[1] != settled {
				t.Errorf("told %v", told)
			}
			if m.knows(number(1)) != settled {
				t.Errorf("after the end it is known: %v", !settled)
			}
			again := m.begin(number(1), repeating(func(bool) {}))
			if again == settled {
				t.Errorf("after the end it is new: %v", again)
			}
		})
	}
}

func TestTriesDifferInIDTokenTimeReplaysAttemptLogKeyAndValue(t *testing.T) {
	m := newMemory(1)
	all := map[try]bool{}
	differences := []func(*envelope.Envelope){
		func(*envelope.Envelope) {},
		func(e *envelope.Envelope) { e.Message.ID = "t:0:2" },
		func(e *envelope.Envelope) { e.Message.Time = time.UnixMilli(1) },
		func(e *envelope.Envelope) { e.Message.Replays++ },
		func(e *envelope.Envelope) { e.Message.Attempt++ },
		func(e *envelope.Envelope) { e.Message.Snoozes++ },
		func(e *envelope.Envelope) { e.Log++ },
		func(e *envelope.Envelope) { e.Token = "A" },
		func(e *envelope.Envelope) { e.Token = "B" },
		func(e *envelope.Envelope) { e.Message.ID, e.Token = "t:0:1A", "" },
		func(e *envelope.Envelope) { e.Message.ID, e.Token = "t:0:", "1" },
		func(e *envelope.Envelope) { e.Message.Key = []byte("b") },
		func(e *envelope.Envelope) { e.Message.Value = []byte("b") },
		func(e *envelope.Envelope) { e.Message.Key, e.Message.Value = []byte("av"), nil },
		func(e *envelope.Envelope) { e.Message.ID, e.Message.Key, e.Message.Value = "t:0:1a", []byte("v"), nil },
	}
	for _, change := range differences {
		e := &envelope.Envelope{Message: stepwell.Message{ID: "t:0:1", Replays: 1, Attempt: 2, Key: []byte("a"), Value: []byte("v")}}
		change(e)
		all[m.try(e)] = true
		if again := *e; m.try(&again) != m.try(e) {
			t.Error("one try is two")
		}
	}
	if len(all) != len(differences) {
		t.Errorf("%d of %d tries told apart", len(all), len(differences))
	}
}

func TestTheMemoryKeepsTheLastSettledAndNoMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 20).Draw(t, "limit")
		m := newMemory(limit)
		var settled []int
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			n := rapid.IntRange(0, 40).Draw(t, "try")
			known := slices.Contains(settled, n)
			if m.begin(number(n), repeating(func(bool) {})) == known {
				t.Fatalf("try %d: known %v, with %v settled last", n, known, settled)
			}
			if !known {
				m.end(number(n), true)
				settled = append(settled, n)
				settled = settled[max(0, len(settled)-limit):]
			}
			if len(m.tries) != len(settled) || len(m.ring) > limit || len(m.waiting) != 0 {
				t.Fatalf("%d tries, ring of %d, %d with repeats", len(m.tries), len(m.ring), len(m.waiting))
			}
		}
	})
}

func BenchmarkMemory(b *testing.B) {
	m := newMemory(remembered)
	e := &envelope.Envelope{Message: stepwell.Message{ID: "orders.v1:12:", Attempt: 2, Value: make([]byte, 1024)}}
	for n := range b.N {
		e.Message.Replays = n
		t := m.try(e)
		m.begin(t, repeating(func(bool) {}))
		m.end(t, true)
	}
}
