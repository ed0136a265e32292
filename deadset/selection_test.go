package deadset_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/deadset"
	"github.com/stepwell/stepwell/embedded/memory"
	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/filter"
	"github.com/stepwell/stepwell/internal/queue"
)

// buryKinds puts n envelopes into a dead set, the i-th of which died of cause i%3.
func buryKinds(t *testing.T, b queue.Broker, name string, n int) {
	t.Helper()
	told := make(chan error, n)
	p := b.Publisher("test")
	for i := range n {
		p.Publish(t.Context(), name, deadOf(i, time.Now()).Encode(), func(err error) { told <- err })
	}
	for range n {
		if err := <-told; err != nil {
			t.Fatal(err)
		}
	}
}

func deadOf(i int, died time.Time) *envelope.Envelope {
	return &envelope.Envelope{
		AttemptsTotal: 4, DiedAt: died,
		Failure: envelope.Failure{Reason: stepwell.ReasonExhausted, Error: fmt.Sprint("cause ", "abc"[i%3:i%3+1]), At: died},
		Message: stepwell.Message{ID: fmt.Sprint("t:0:", i), Stream: "s", Value: fmt.Append(nil, i), Attempt: 4, Origin: stepwell.Origin{Topic: "t", Offset: int64(i)}},
	}
}

// kinds are the ids of n messages buried by buryKinds, of some causes.
func kinds(n int, causes ...int) (all []string) {
	for i := range n {
		if slices.Contains(causes, i%3) {
			all = append(all, fmt.Sprint("t:0:", i))
		}
	}
	return all
}

// of is a selection of what is dead by now, in the words of a request.
func of(t *testing.T, parameters map[string]string) deadset.Selection {
	t.Helper()
	f, err := filter.Parse(parameters, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return deadset.Selection{Filter: f, Before: time.Now(), Operation: "op_1"}
}

func choose(t *testing.T, s *deadset.Set, sel deadset.Selection) deadset.Choice {
	t.Helper()
	c, err := s.Choose(sel)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const everything = 1 << 30

func TestOnlyWhatIsChosenIsReplayedAndTheOthersKeepTheirOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, s *deadset.Set) {
		buryKinds(t, b, dead, 30)
		r, err := choose(t, s, of(t, map[string]string{"error": "cause b"})).Replay(t.Context(), nil, everything)
		if err != nil || r != (deadset.Turn{Begun: 10, Done: 10}) {
			t.Fatalf("%+v, %v", r, err)
		}
		if left := ids(t, b, dead); !slices.Equal(left, kinds(30, 0, 2)) {
			t.Errorf("left: %v", left)
		}
		if moved := ids(t, b, ready); !slices.Equal(moved, kinds(30, 1)) {
			t.Errorf("moved: %v", moved)
		}
		// A fresh look finds none.
		if r, err := choose(t, s, of(t, map[string]string{"error": "cause b"})).Replay(t.Context(), nil, everything); err != nil || r != (deadset.Turn{}) {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

func TestAGroupIsDeletedForGoodAndNothingElse(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, s *deadset.Set) {
		buryKinds(t, b, dead, 30)
		causes, err := s.Groups(t.Context(), filter.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		sel := of(t, map[string]string{"group": causes.Groups[0].Group})
		sample, err := choose(t, s, sel).Sample(t.Context())
		if err != nil || sample.Matched != 10 || len(sample.Groups) != 1 || len(sample.Samples) != 5 || sample.Samples[0].ID != "t:0:0" || !sample.Complete || sample.Bytes < 10 {
			t.Fatalf("%+v, %v", sample, err)
		}
		if r, err := choose(t, s, sel).Delete(t.Context(), nil, everything); err != nil || r.Done != 10 {
			t.Fatalf("%+v, %v", r, err)
		}
		if left := ids(t, b, dead); !slices.Equal(left, kinds(30, 1, 2)) || depth(t, b, ready) != 0 {
			t.Errorf("left: %v", left)
		}
	})
}

func TestEveryCopyOfAnIDIsChosenByIt(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, s *deadset.Set) {
		bury(t, b, 4)
		bury(t, b, 4)
		put(t, b, dead, queue.Message{Body: []byte("a stranger's, without an id")})
		look, err := s.Find(t.Context(), deadset.Query{Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		sel := deadset.Selection{Filter: filter.IDs([]string{"t:0:2", look.Messages[8].ID}), Before: time.Now(), Undated: true}
		if r, err := choose(t, s, sel).Delete(t.Context(), nil, everything); err != nil || r.Done != 3 {
			t.Errorf("%+v, %v", r, err)
		}
		if left := ids(t, b, dead); fmt.Sprint(left) != "[t:0:0 t:0:1 t:0:3 t:0:0 t:0:1 t:0:3]" {
			t.Errorf("left: %v", left)
		}
	})
}

func TestWhatAFilterIsTrueOfAndHasToStayIsCountedAndStays(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, s *deadset.Set) {
		now := time.Now()
		own := deadOf(1, now)
		own.Extra = map[string]any{"x-stepwell-operation": "op_1"}
		looping := deadOf(2, now)
		looping.Failure.Reason = stepwell.ReasonCrashLoop
		other := deadOf(5, now)
		other.Extra = map[string]any{"x-stepwell-operation": "op_0"}
		for _, e := range []*envelope.Envelope{deadOf(0, now), own, looping, deadOf(3, now.Add(time.Nanosecond)), deadOf(4, time.Time{}), other} {
			put(t, b, dead, e.Encode())
		}
		sel := deadset.Selection{Filter: filter.All(), Before: now, Operation: "op_1"}
		want := deadset.LeftOut{CrashLoop: 1, Undated: 1, Later: 1}
		if sample, err := choose(t, s, sel).Sample(t.Context()); err != nil || sample.Matched != 2 || sample.LeftOut != want {
			t.Errorf("%+v, %v", sample, err)
		}
		r, err := choose(t, s, sel).Replay(t.Context(), nil, everything)
		if err != nil || r != (deadset.Turn{Begun: 2, Done: 2, LeftOut: want}) {
			t.Errorf("%+v, %v", r, err)
		}
		if left := ids(t, b, dead); fmt.Sprint(left) != "[t:0:1 t:0:2 t:0:3 t:0:4]" {
			t.Errorf("left: %v", left)
		}
		sel.CrashLoops, sel.Undated = true, true
		if r, err := choose(t, s, sel).Replay(t.Context(), nil, everything); err != nil || r != (deadset.Turn{Begun: 2, Done: 2, LeftOut: deadset.LeftOut{Later: 1}}) {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

func TestWhatWasReplayedAndDiesAgainSaysWhichOperationItWas(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, s *deadset.Set) {
		bury(t, b, 1)
		put(t, b, dead, queue.Message{ID: "junk", Body: []byte("no envelope")})
		sel := deadset.Selection{Filter: filter.All(), Before: time.Now(), Operation: "op_1", Undated: true}
		if r, err := choose(t, s, sel).Replay(t.Context(), nil, everything); err != nil || r.Done != 2 {
			t.Fatalf("%+v, %v", r, err)
		}
		for _, d := range take(t, b, ready) { // as a program would that reads it and fails
			m := d.Message
			if e, err := envelope.Decode(m); err == nil {
				e.DiedAt = time.Now()
				m = e.Encode()
			}
			put(t, b, dead, m)
		}
		look, err := s.Find(t.Context(), deadset.Query{Limit: 10})
		if err != nil || len(look.Messages) != 2 || look.Messages[0].Operation != "op_1" || look.Messages[1].Operation != "op_1" {
			t.Errorf("%+v, %v", look, err)
		}
		if r, err := choose(t, s, sel).Replay(t.Context(), nil, everything); err != nil || r.Done != 0 || r.LeftOut != (deadset.LeftOut{}) {
			t.Errorf("replayed once more: %+v, %v", r, err)
		}
	})
}

// take removes all messages of a queue.
func take(t *testing.T, b queue.Broker, name string) []queue.Delivery {
	t.Helper()
	l, err := b.Lease(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	w, err := l.Window(t.Context(), queue.WindowSize, 64<<20)
	if err != nil {
		t.Fatal(err)
	}
	all, err := queue.Gather(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range all {
		d.Ack()
	}
	if _, err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestAFilterThatAsksForNothingIsNeverTakenForAll(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, s *deadset.Set) {
		bury(t, b, 3)
		sel := deadset.Selection{Before: time.Now()}
		if _, err := s.Choose(sel); !errors.Is(err, deadset.ErrNothingChosen) {
			t.Errorf("%v", err)
		}
	})
}

func TestATurnTakesTheOldestOfThoseChosenAndNoMoreThanItMay(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, s *deadset.Set) {
		buryKinds(t, b, dead, 30)
		r, err := choose(t, s, of(t, map[string]string{"error": "cause c"})).Delete(t.Context(), nil, 4)
		if err != nil || r.Done != 4 || !r.More {
			t.Errorf("%+v, %v", r, err)
		}
		if left := ids(t, b, dead); len(left) != 26 || slices.Contains(left, "t:0:11") || !slices.Contains(left, "t:0:14") {
			t.Errorf("left: %v", left)
		}
	})
}

func TestATurnThatCannotHaveTheDeadSetSaysThatItBeganNothingAndSawNoEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, s *deadset.Set) {
		bury(t, b, 3)
		lease, err := b.Lease(t.Context(), dead)
		if err != nil {
			t.Fatal(err)
		}
		defer lease.Release()
		r, err := choose(t, s, deadset.Selection{Filter: filter.All(), Before: time.Now()}).Delete(t.Context(), nil, everything)
		if !errors.Is(err, queue.ErrLeased) || r.Begun != 0 || !r.More {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// Who goes on with what another process has begun looks at once after its last turn.
func TestASampleIsALookOfItsOwnAndSeesWhatAnotherProcessHasJustDone(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, s *deadset.Set) {
		bury(t, b, 5)
		other := deadset.New(deadset.Config{App: "a", Stream: "s", Queue: dead, Instant: ready, Broker: b})
		all := deadset.Selection{Filter: filter.All(), Before: time.Now()}
		for want := 5; want >= 0; want-- {
			if found, err := choose(t, s, all).Sample(t.Context()); err != nil || found.Matched != want {
				t.Errorf("%d match, not %d: %v", found.Matched, want, err)
			}
			if want == 0 {
				break
			}
			if r, err := choose(t, other, all).Delete(t.Context(), nil, 1); err != nil || r.Done != 1 {
				t.Fatalf("%+v, %v", r, err)
			}
		}
	})
}

func TestATurnThatIsToldThatItIsEnoughEndsAndHasSettledWhatItBegan(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, s *deadset.Set) {
		bury(t, b, 3)
		enough := make(chan struct{})
		close(enough)
		r, err := choose(t, s, deadset.Selection{Filter: filter.All(), Before: time.Now()}).Replay(t.Context(), enough, everything)
		if err != nil || !r.More {
			t.Errorf("%+v, %v", r, err)
		}
		if left := depth(t, b, dead); left+depth(t, b, ready) != 3 || left != 3-r.Done {
			t.Errorf("%d left, %+v", left, r)
		}
	})
}

func TestOfMoreThanAWindowWhatComesIntoViewIsActedOnAndWhatDoesNotIsCounted(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, s *deadset.Set) {
		buryKinds(t, b, dead, 5000) // 1667 of cause a
		sel := of(t, map[string]string{"error": "cause a"})
		// Two of three stay and fill the window: 2000 of them and the 1000 between.
		r, err := choose(t, s, sel).Delete(t.Context(), nil, everything)
		if err != nil || r.Done < 1000 || r.Done > 1001 || r.Unseen < 1999 || r.More {
			t.Fatalf("%+v, %v", r, err)
		}
		// Those that stay fill it now from the start: no further turn sees more.
		if r, err := choose(t, s, sel).Delete(t.Context(), nil, everything); err != nil || r.Done != 0 || r.Begun != 0 || r.Unseen < 1999 || r.More {
			t.Errorf("%+v, %v", r, err)
		}
		all := deadset.Selection{Filter: filter.All(), Before: time.Now()}
		if r, err := choose(t, s, all).Delete(t.Context(), nil, everything); err != nil || r.Unseen != 0 || depth(t, b, dead) != 0 {
			t.Errorf("of all: %+v, %v", r, err)
		}
	})
}

func TestWhatDiesDuringATurnIsNotPartOfIt(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		bury(t, b, 3)
		const beforeTheFirstPublish = 4
		f := &faulty{Broker: b, at: beforeTheFirstPublish}
		f.crash = func() { put(t, b, dead, deadOf(9, time.Now().Add(-time.Hour)).Encode()) }
		s := deadset.New(deadset.Config{App: "a", Stream: "s", Queue: dead, Instant: ready, Broker: f})
		r, err := choose(t, s, deadset.Selection{Filter: filter.All(), Before: time.Now()}).Replay(t.Context(), nil, everything)
		if left := ids(t, b, dead); err != nil || r.Done != 3 || !f.reached() || !slices.Equal(left, []string{"t:0:9"}) {
			t.Errorf("%+v, %v, left %v", r, err, left)
		}
	})
}

func TestMessagesThatTurnsHandedOutTooOftenAreRenewedInTheirOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		buryKinds(t, b, dead, 9)
		s := deadset.New(deadset.Config{App: "a", Stream: "s", Queue: dead, Instant: ready, Broker: &faulty{Broker: b, age: 600_000}})
		for range 3 {
			if r, err := choose(t, s, of(t, map[string]string{"error": "cause a"})).Delete(t.Context(), nil, 1); err != nil || r.Done != 1 {
				t.Fatalf("%+v, %v", r, err)
			}
		}
		left := take(t, b, dead)
		if len(left) != 6 || left[0].ID != "t:0:1" || left[5].ID != "t:0:8" || left[0].Returns > 2 || left[0].Headers["x-stepwell-renewed"] == nil {
			t.Errorf("left: %+v", left)
		}
	})
}

func TestACrashAtAnyStepOfATurnMovesNothingThatIsNotChosenAndLosesNothing(t *testing.T) {
	for action, act := range map[string]func(deadset.Choice, context.Context, <-chan struct{}, int) (deadset.Turn, error){
		"replay": deadset.Choice.Replay, "delete": deadset.Choice.Delete,
	} {
		crashes(t, func(t *testing.T, ctx context.Context, b *memory.Broker, s *deadset.Set, crashed func() bool) {
			// t:0:1 and t:0:2 of the four that are there are chosen.
			sel := deadset.Selection{Filter: filter.IDs([]string{"t:0:1", "t:0:2"}), Before: time.Now()}
			r, err := act(choose(t, s, sel), ctx, nil, everything)
			if crashed() {
				mend(b)
			} else if err != nil || r.Done != 2 {
				t.Errorf("without a crash: %+v, %v", r, err)
			}
			synctest.Wait()
			left, moved := ids(t, b, dead), ids(t, b, ready)
			if !slices.Contains(left, "t:0:0") || !slices.Contains(left, "t:0:3") || slices.Contains(moved, "t:0:0") || slices.Contains(moved, "t:0:3") {
				t.Errorf("%s moved what is not chosen: left %v, moved %v", action, left, moved)
			}
			for _, id := range []string{"t:0:1", "t:0:2"} {
				if action == "replay" && !slices.Contains(left, id) && !slices.Contains(moved, id) {
					t.Errorf("%s is nowhere", id)
				}
			}
			if !slices.IsSorted(left) || !slices.IsSorted(moved) || r.Done > 4-len(left) {
				t.Errorf("%s: %+v, left %v, moved %v", action, r, left, moved)
			}
		})
	}
}
