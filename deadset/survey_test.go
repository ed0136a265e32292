package deadset_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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

// died is a message that died of an error some time ago.
func died(id, text string, ago time.Duration) envelope.Envelope {
	at := time.Now().Add(-ago)
	return envelope.Envelope{
		AttemptsTotal: 4, DiedAt: at,
		Failure: envelope.Failure{Reason: stepwell.ReasonExhausted, Error: text, ErrorType: "*url.Error", At: at},
		Message: stepwell.Message{ID: id, Stream: "s", Key: []byte("k" + id), Value: []byte(id), Attempt: 4, Origin: stepwell.Origin{Topic: "t"}},
	}
}

func buryAll(t *testing.T, b queue.Broker, all ...envelope.Envelope) {
	t.Helper()
	for _, e := range all {
		put(t, b, dead, e.Encode())
	}
}

func where(t *testing.T, parameters ...string) filter.Filter {
	t.Helper()
	given := map[string]string{}
	for i := 0; i < len(parameters); i += 2 {
		given[parameters[i]] = parameters[i+1]
	}
	f, err := filter.Parse(given, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func find(t *testing.T, s *deadset.Set, q deadset.Query) (list deadset.List, ids string) {
	t.Helper()
	list, err := s.Find(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait() // all is given back
	var all []string
	for _, m := range list.Messages {
		all = append(all, m.ID)
	}
	return list, strings.Join(all, " ")
}

func TestCausesAreCountedEachWithItsTimesKeysAndAnExample(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, s *deadset.Set) {
		again := died("5", "charge order 9: status 503", 30*time.Second)
		again.Message.Replays, again.Message.Key = 1, []byte("k1")
		buryAll(t, b, died("1", "charge order 17: status 503", 3*time.Hour), died("2", "no such customer", time.Hour), died("3", "charge order 18: status 503", 90*time.Second), again)
		put(t, b, dead, queue.Message{ID: "4", Body: []byte("not ours")})
		got, err := s.Groups(t.Context(), filter.Filter{})
		if err != nil || got.Depth != 5 || !got.Complete || got.Unsorted != 0 || !got.AsOf.Equal(time.Now()) || len(got.Groups) != 3 {
			t.Fatalf("%+v, %v", got, err)
		}
		g := got.Groups[0]
		minutes := make([]int, 60)
		minutes[59], minutes[58] = 1, 1
		if g.Count != 3 || g.Error != "charge order <n>: status 503" || g.ErrorType != "*url.Error" || g.Reason != "exhausted" || g.ExampleID != "5" || g.Keys != 2 || g.Replayed != 1 ||
			!g.FirstDiedAt.Equal(time.Now().Add(-3*time.Hour)) || !g.LastDiedAt.Equal(time.Now().Add(-30*time.Second)) || !slices.Equal(g.Minutes, minutes) {
			t.Errorf("%+v", g)
		}
		if foreign := got.Groups[2]; foreign.Reason != stepwell.ReasonUndecodable || foreign.Count != 1 || foreign.ExampleID != "4" || foreign.LastDiedAt != nil {
			t.Errorf("%+v", foreign)
		}
		time.Sleep(2 * time.Second)
		if only, err := s.Groups(t.Context(), where(t, "group", g.Group)); err != nil || len(only.Groups) != 1 || only.Groups[0].Count != 3 || only.Depth != 5 {
			t.Errorf("of one group: %+v, %v", only, err)
		}
	})
}

func TestAnErrorThatNamesItsCauseIsAGroupByThatName(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, s *deadset.Set) {
		for i, text := range []string{"no luck", "once more no luck"} {
			e := died(fmt.Sprint(i), text, time.Minute)
			e.Failure.Group = "card declined"
			buryAll(t, b, e)
		}
		got, err := s.Groups(t.Context(), filter.Filter{})
		if err != nil || len(got.Groups) != 1 || got.Groups[0].Count != 2 || got.Groups[0].Error != "card declined" {
			t.Errorf("%+v, %v", got.Groups, err)
		}
	})
}

func TestAListGoesOnWhereItStoppedAndKnowsHowManyMatch(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, s *deadset.Set) {
		for i := range 6 {
			buryAll(t, b, died(fmt.Sprint("a", i), "away", time.Hour), died(fmt.Sprint("b", i), "broken", time.Hour))
		}
		buryAll(t, b, died("a1", "away", time.Hour)) // a copy, as a crash may leave one
		of := deadset.Query{Filter: where(t, "error", "away"), Limit: 3}
		first, ids := find(t, s, of)
		if ids != "a0 a1 a2" || first.Matched != 7 || first.Depth != 13 || first.Next == "" || !first.Complete {
			t.Fatalf("%s of %+v", ids, first.Span)
		}
		of.After = first.Next
		second, ids := find(t, s, of)
		if ids != "a3 a4 a5" || second.Matched != 7 {
			t.Fatalf("then %s", ids)
		}
		of.After = second.Next
		if last, ids := find(t, s, of); ids != "a1" || last.Next != "" {
			t.Fatalf("at last %s, next %q", ids, last.Next)
		}
		of.After = first.Next
		if r, err := s.Delete(t.Context(), 5); err != nil || r.Done != 5 { // a2 is among them
			t.Fatal(r, err)
		}
		if _, err := s.Find(t.Context(), of); !errors.Is(err, deadset.ErrMoved) {
			t.Errorf("behind a message that is gone: %v", err)
		}
	})
}

func TestAMessageIsShownByItsIDWithItsTriesAndCopies(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, s *deadset.Set) {
		e := died("x/1", "third", time.Minute)
		e.History = []envelope.Try{{Attempt: 1, At: e.DiedAt.Add(-2 * time.Minute), Error: "first"}, {Attempt: 2, At: e.DiedAt.Add(-time.Minute), Error: "second"}}
		e.Message.Attempt = 3
		e.Message.Value = []byte(strings.Repeat("v", 70_000))
		buryAll(t, b, e, died("y", "other", 0), e)
		nameless := queue.Message{Body: []byte("who am I")}
		put(t, b, dead, nameless)
		got, err := s.Message(t.Context(), "x/1")
		if err != nil || got.Copies != 2 || len(got.Tries) != 3 || got.Tries[0].Error != "first" || got.Tries[2].Error != "third" || got.Group == "" {
			t.Fatalf("%+v, %v", got.Tries, err)
		}
		if key, value := got.Bytes(); string(key) != "kx/1" || len(value) != 70_000 || !got.Truncated {
			t.Errorf("%d bytes of value", len(value))
		}
		_, all := find(t, s, deadset.Query{Limit: 10})
		id := strings.Fields(all)[3]
		if named, err := s.Message(t.Context(), id); err != nil || !strings.HasPrefix(id, "sha256-") || named.Reason != stepwell.ReasonUndecodable {
			t.Errorf("%s: %+v, %v", id, named, err)
		}
		if _, err := s.Message(t.Context(), "z"); !errors.Is(err, deadset.ErrNotFound) {
			t.Error(err)
		}
	})
}

func TestWhatALookDoesNotReachIsToldAsUnsorted(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, s *deadset.Set) {
		bury(t, b, queue.WindowSize+7)
		list, _ := find(t, s, deadset.Query{Limit: 1})
		if list.Unsorted != 7 || list.Complete || list.Depth != queue.WindowSize+7 || list.Matched != queue.WindowSize {
			t.Errorf("%+v", list.Span)
		}
		_, err := s.Message(t.Context(), fmt.Sprint("t:0:", queue.WindowSize+1))
		if !errors.Is(err, deadset.ErrNotFound) || !strings.Contains(err.Error(), "oldest 2000 of 2007") {
			t.Error(err)
		}
	})
}

func TestLooksWithinASecondShareOneUnlessSomethingWasChanged(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, s *deadset.Set) {
		bury(t, b, 3)
		ask := func() int {
			t.Helper()
			c, err := s.Groups(t.Context(), filter.Filter{})
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			return c.Depth
		}
		before := ask()
		bury(t, b, 1) // by another process
		if shared := ask(); before != 3 || shared != 3 {
			t.Errorf("%d, then %d", before, shared)
		}
		if _, err := s.Delete(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if after := ask(); after != 3 {
			t.Errorf("after a delete: %d", after)
		}
		bury(t, b, 1)
		time.Sleep(2 * time.Second)
		if later := ask(); later != 4 {
			t.Errorf("a second later: %d", later)
		}
	})
}

func TestALookIsRefusedWhileAnotherWalksAndAfterTheEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, s *deadset.Set) {
		bury(t, b, 1)
		l, err := b.Lease(t.Context(), dead)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Find(t.Context(), deadset.Query{Limit: 1}); !errors.Is(err, queue.ErrLeased) {
			t.Errorf("beside a walk: %v", err)
		}
		l.Release()
		if err := s.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Groups(t.Context(), filter.Filter{}); !errors.Is(err, queue.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

// Who looks after a canary wants to see what died once more of it, in pages that are remembered,
// too.
func TestWhatDiedOnceMoreAfterAReplayIsFoundByItsOperation(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		by := map[int]string{0: "op_1", 1: "op_2", 3: "op_1"}
		for i := range 15 { // four pages
			e := deadOf(i, time.Now())
			if by[i] != "" {
				e.Extra = map[string]any{"x-stepwell-operation": by[i]}
			}
			put(t, b, dead, e.Encode())
		}
		s, read := remembering(b, deadset.NewIndex(1<<20))
		looked := func() {
			t.Helper()
			time.Sleep(2 * time.Second) // nothing that was seen is shared
			if _, ids := find(t, s, deadset.Query{Filter: of(t, map[string]string{"replayed_by": "op_1"}).Filter, Limit: 10}); ids != "t:0:0 t:0:3" {
				t.Errorf("found: %s", ids)
			}
		}
		looked()
		sorted(t, s, "op_9")
		if _, err := s.Groups(t.Context(), filter.Filter{}); err != nil { // reads all pages
			t.Fatal(err)
		}
		read.pages()
		looked()
		// The last shows that all are as they were; of the others those that have some to show.
		if again := read.pages(); !slices.Equal(again, []int{0, 1, 3}) {
			t.Errorf("read anew: %v", again)
		}
	})
}
