package deadset_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell/deadset"
	"github.com/stepwell/stepwell/embedded/memory"
	"github.com/stepwell/stepwell/internal/queue"
)

// FuzzACursorIsOneOfTheListOrRefused goes on behind any text: only what a list had as its next is
// taken, letter for letter, and shows what is behind it; all else is ErrMoved, and never the list
// from its beginning, which a program that pages would read for ever.
func FuzzACursorIsOneOfTheListOrRefused(f *testing.F) {
	s, ids := lasting(f)
	behind := map[string]int{"": 0}
	var after string
	for shown := 1; shown < len(ids); shown++ {
		list, err := s.Find(f.Context(), deadset.Query{Limit: 1, After: after})
		if err != nil || len(list.Messages) != 1 || list.Next == "" || behind[list.Next] != 0 {
			f.Fatalf("the list behind %q: %+v, %v", after, list, err)
		}
		after = list.Next
		behind[after] = shown
		f.Add(after, uint8(shown))
		// Another copy, another number of the same, another case, more, less.
		for _, text := range []string{after + "0", after[:len(after)-1], strings.Replace(after, "-", "-0", 1), strings.Replace(after, "-", "-+", 1), strings.ToUpper(after), " " + after} {
			f.Add(text, uint8(shown))
		}
	}
	f.Add("", uint8(3))
	f.Add("-0", uint8(1))
	f.Add("\x00\xff", uint8(1))
	f.Fuzz(func(t *testing.T, text string, limit uint8) {
		q := deadset.Query{After: text, Limit: max(1, int(limit))}
		list, err := s.Find(t.Context(), q)
		from, ours := behind[text]
		if !ours {
			if !errors.Is(err, deadset.ErrMoved) || list.Messages != nil || list.Next != "" {
				t.Fatalf("%q is taken: %+v, %v", text, list, err)
			}
			return
		}
		to := min(from+q.Limit, len(ids))
		var got []string
		for _, m := range list.Messages {
			got = append(got, m.ID)
		}
		if err != nil || fmt.Sprint(got) != fmt.Sprint(ids[from:to]) || list.Matched != len(ids) {
			t.Fatalf("behind %q: %q of %d, %v", text, got, list.Matched, err)
		}
		if next, there := behind[list.Next]; there != (list.Next != "" || to == len(ids)) || to < len(ids) && next != to {
			t.Fatalf("behind %q and %d more it goes on with %q", text, q.Limit, list.Next)
		}
	})
}

// lasting is a dead set, and the ids in it, of which some are copies, some have no time of death,
// and one is no text.
func lasting(f *testing.F) (*deadset.Set, []string) {
	f.Helper()
	b := memory.New()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- b.Run(ctx) }()
	f.Cleanup(func() { cancel(); <-ended })
	if err := b.Declare(ctx, []queue.Spec{{Name: dead, Kind: queue.DeadSet}, {Name: ready, Kind: queue.Instant, Target: dead}}); err != nil {
		f.Fatal(err)
	}
	told := make(chan error)
	of := func(id string, ago time.Duration) queue.Message { e := died(id, "away", ago); return e.Encode() }
	copied := of("a-0", time.Hour)
	for _, m := range []queue.Message{
		copied, of("b", time.Hour), copied, {ID: "c", Body: []byte("not ours")}, copied,
		{ID: "c", Body: []byte("not ours")}, of("a-0", time.Minute), {Body: []byte("\x00nameless")},
	} {
		b.Publisher("test").Publish(ctx, dead, m, func(err error) { told <- err })
		if err := <-told; err != nil {
			f.Fatal(err)
		}
	}
	s := deadset.New(deadset.Config{App: "a", Stream: "s", Queue: dead, Instant: ready, Broker: b, WalkBytes: 1 << 20, Index: deadset.NewIndex(1 << 20)})
	list, err := s.Find(ctx, deadset.Query{Limit: 100})
	if err != nil {
		f.Fatal(err)
	}
	var ids []string
	for _, m := range list.Messages {
		ids = append(ids, m.ID)
	}
	return s, ids
}
