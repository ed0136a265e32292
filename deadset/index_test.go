package deadset_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/stepwell/stepwell/deadset"
	"github.com/stepwell/stepwell/embedded/memory"
	"github.com/stepwell/stepwell/internal/filter"
	"github.com/stepwell/stepwell/internal/queue"
)

// reading counts how often parts of a dead set were read.
type reading struct {
	queue.Broker

	mu   sync.Mutex
	read map[string]int
}

func (r *reading) Lease(ctx context.Context, name string) (queue.Lease, error) {
	l, err := r.Broker.Lease(ctx, name)
	if err != nil {
		return nil, err
	}
	return readingLease{l, r, name}, nil
}

type readingLease struct {
	queue.Lease
	r    *reading
	name string
}

func (l readingLease) On(spec queue.Spec) queue.Lease {
	return readingLease{l.Lease.On(spec), l.r, spec.Name}
}

func (l readingLease) Window(ctx context.Context, most, maxBytes int) (queue.Window, error) {
	l.r.mu.Lock()
	l.r.read[l.name]++
	l.r.mu.Unlock()
	return l.Lease.Window(ctx, most, maxBytes)
}

// pages are the numbers of the pages that were read since the last call, in order.
func (r *reading) pages() (all []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for k := range 20 {
		if r.read[deadset.PageOf(dead, k)] > 0 {
			all = append(all, k)
		}
	}
	clear(r.read)
	return all
}

// remembering is a dead set like that of paged, and what counts what it reads.
func remembering(b queue.Broker, x *deadset.Index) (*deadset.Set, *reading) {
	r := &reading{Broker: b, read: map[string]int{}}
	return deadset.New(deadset.Config{App: "a", Stream: "s", Queue: dead, Instant: ready, Broker: r, WalkBytes: 900, Pages: 16, Index: x}), r
}

// forgetful is a dead set like that of paged that remembers nothing.
func forgetful(b queue.Broker) *deadset.Set {
	return deadset.New(deadset.Config{App: "a", Stream: "s", Queue: dead, Instant: ready, Broker: b, WalkBytes: 900, Pages: 16})
}

// looks are all that looks of a process tell of a dead set of a few messages: how many there are,
// groups, ids in their order by lists of two, and each of them by its id.
func looks(t testing.TB, s *deadset.Set) string {
	t.Helper()
	var told strings.Builder
	settled := func() {
		synctest.Wait()             // all is given back
		time.Sleep(2 * time.Second) // on the false clock: nothing that was seen is shared
	}
	settled()
	causes, err := s.Groups(t.Context(), filter.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&told, "depth %d, unsorted %d;", causes.Depth, causes.Unsorted)
	for _, g := range causes.Groups {
		fmt.Fprintf(&told, " %s %s %d of %d keys, %d replayed, %s;", g.Group, g.Error, g.Count, g.Keys, g.Replayed, g.ExampleID)
	}
	all, err := filter.Parse(map[string]string{"attempts_min": "1"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for q := (deadset.Query{Filter: all, Limit: 2}); ; {
		settled()
		list, err := s.Find(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range list.Messages {
			ids = append(ids, m.ID)
			fmt.Fprintf(&told, " %s %s %d", m.ID, m.Value, m.Replays)
		}
		if q.After = list.Next; list.Next == "" {
			break
		}
	}
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		settled()
		one, err := s.Message(t.Context(), id)
		if err != nil {
			t.Fatal(id, err)
		}
		fmt.Fprintf(&told, " %s %dx %s", one.ID, one.Copies, one.Value)
	}
	settled()
	return told.String()
}

func TestOfPagesThatAreAsTheyWereALookReadsTheLastAndWhatItHasToShow(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		bury(t, b, 12)
		sorted(t, paged(b, 16), "op")
		s, r := remembering(b, deadset.NewIndex(1<<20))
		pages := len(inPages(t, b))
		ask := func(what string, want []int, do func() error) {
			t.Helper()
			synctest.Wait()
			time.Sleep(2 * time.Second)
			if err := do(); err != nil {
				t.Fatal(what, err)
			}
			if got := r.pages(); !slices.Equal(got, want) {
				t.Errorf("%s: pages %v were read, not %v", what, got, want)
			}
		}
		every, last := []int{}, pages-1
		for k := range pages {
			every = append(every, k)
		}
		groups := func(parameters ...string) func() error {
			return func() error {
				c, err := s.Groups(t.Context(), where(t, parameters...))
				if err == nil && c.Groups[0].Count != 12 {
					t.Errorf("%d of 12", c.Groups[0].Count)
				}
				return err
			}
		}
		message := func(id string) func() error {
			return func() error {
				m, err := s.Message(t.Context(), id)
				if err == nil && (m.ID != id || m.Copies != 1 || m.Value == nil) {
					t.Errorf("%+v", m)
				}
				return err
			}
		}
		list := func(limit int, after string) func() error {
			return func() error {
				l, err := s.Find(t.Context(), deadset.Query{Filter: where(t, "error", "away"), Limit: limit, After: after})
				if err == nil && (l.Matched != 12 || len(l.Messages) != limit || l.Messages[0].Value == nil) {
					t.Errorf("%+v", l)
				}
				return err
			}
		}
		ask("cold", every, groups())
		ask("warm", []int{last}, groups())
		ask("warm, by what is remembered", []int{last}, groups("error", "away", "reason", "exhausted", "died_from", "1h", "offset_from", "0"))
		ask("by what is not", every, func() error {
			c, err := s.Groups(t.Context(), where(t, "value", "7"))
			if err == nil && c.Groups[0].Count != 1 {
				t.Errorf("%d have it", c.Groups[0].Count)
			}
			return err
		})
		ask("warm again", []int{last}, groups())
		ask("one by its id", []int{1, last}, message("t:0:5"))
		ask("one of the last page", []int{last}, message("t:0:11"))
		ask("a list", []int{0, last}, list(2, ""))
		ask("an export", every, func() error { _, err := s.Export(t.Context(), filter.Filter{}); return err })
		ask("warm after it", []int{last}, groups())
		if _, err := s.Message(t.Context(), "t:0:12"); !errors.Is(err, deadset.ErrNotFound) {
			t.Error(err)
		}
		r.pages()
		// Another process takes one out of a page: that page alone is another.
		if d, err := choose(t, paged(b, 16), deadset.Selection{Filter: filter.IDs([]string{"t:0:5"}), Before: time.Now(), Operation: "op_1"}).Delete(t.Context(), nil, everything); err != nil || d.Done != 1 {
			t.Fatal(d, err)
		}
		ask("after a delete", []int{1, last}, func() error { _, err := s.Groups(t.Context(), filter.Filter{}); return err })
	})
}

// All that is replayed dies again and is sorted again: each page has as many messages as before,
// and other ones.
func TestPagesThatHaveAsManyOtherMessagesAreReadAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		bury(t, b, 12)
		sorted(t, paged(b, 16), "op")
		s, r := remembering(b, deadset.NewIndex(1<<20))
		looks(t, s)
		before := inPages(t, b)
		if d, err := paged(b, 16).Delete(t.Context(), 12); err != nil || d.Done != 12 {
			t.Fatal(d, err)
		}
		buryMore(t, b, 20, 12)
		sorted(t, paged(b, 16), "op_2")
		if now := inPages(t, b); !slices.Equal(now, before) {
			t.Fatalf("pages of %v, before %v: this test is of no use", now, before)
		}
		r.pages()
		c, err := s.Groups(t.Context(), where(t, "offset_from", "20"))
		if err != nil || c.Depth != 12 || len(c.Groups) != 1 || c.Groups[0].Count != 12 {
			t.Errorf("%+v, %v", c, err)
		}
	})
}

// Somebody's own hand in a page, without the lease, that changes nothing of its depth: what has to
// be shown is read, and shown as it is.
func TestWhatSomebodyPutInPlaceOfARememberedMessageIsNotShownAsThatMessage(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		bury(t, b, 12)
		sorted(t, paged(b, 16), "op")
		s, _ := remembering(b, deadset.NewIndex(1<<20))
		looks(t, s)
		for _, d := range take(t, b, deadset.PageOf(dead, 1)) {
			e := deadOf(100, time.Now())
			e.Message.ID = "instead of " + d.ID
			put(t, b, deadset.PageOf(dead, 1), e.Encode())
		}
		if m, err := s.Message(t.Context(), "t:0:5"); !errors.Is(err, deadset.ErrNotFound) {
			t.Errorf("%+v, %v", m.Entry, err)
		}
		synctest.Wait()
		if m, err := s.Message(t.Context(), "instead of t:0:5"); err != nil || m.ID != "instead of t:0:5" {
			t.Errorf("%+v, %v", m.Entry, err)
		}
	})
}

func TestWhatIsRememberedOfAllDeadSetsOfAProcessHasABoundAndIsForgottenWhenNobodyLooks(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		bury(t, b, 12)
		sorted(t, paged(b, 16), "op")
		const page = 1 << 10
		x := deadset.NewIndex(2 * page)
		first, r := remembering(b, x)
		want := looks(t, forgetful(b))
		reads := func(s *deadset.Set, r *reading) (all []int) {
			t.Helper()
			if got := looks(t, s); got != want {
				t.Errorf("it tells %s, and there is %s", got, want)
			}
			r.pages()
			if _, err := s.Groups(t.Context(), filter.Filter{}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			return r.pages()
		}
		few := reads(first, r)
		if len(few) == 1 || len(few) == len(inPages(t, b)) || deadset.Used(x) > 2*page {
			t.Errorf("pages %v were read, %d bytes are used", few, deadset.Used(x))
		}
		second, r := remembering(b, x)
		if all := reads(second, r); len(all) != len(inPages(t, b)) {
			t.Errorf("there is no room for another dead set, and only pages %v were read", all)
		}
		time.Sleep(11 * time.Minute)
		if used := deadset.Used(x); used != 0 {
			t.Errorf("%d bytes are used by what nobody looks at", used)
		}
		if again := reads(second, r); len(again) != len(few) {
			t.Errorf("now pages %v were read", again)
		}
		if err := second.Close(t.Context()); err != nil || deadset.Used(x) != 0 {
			t.Errorf("%d bytes are used after the end, %v", deadset.Used(x), err)
		}
	})
}

// acting is a dead set on which one process acts while another remembers its pages.
type acting struct {
	t    *testing.T
	b    *memory.Broker
	acts *deadset.Set
	// remembers looks now and then, and aborts some of its looks; fresh looks for the first time.
	remembers *deadset.Set
	f         *faulty
	next      int
}

// later goes on to a time at which nothing died yet: two that are the same in all are one.
func (a *acting) later() { time.Sleep(time.Millisecond) }

func (a *acting) bury(t *rapid.T) {
	a.later()
	n := rapid.IntRange(1, 9).Draw(t, "n")
	buryMore(a.t, a.b, a.next, n)
	a.next += n
}

func (a *acting) sort(*rapid.T) { sorted(a.t, a.acts, "op_1") }

func (a *acting) unsort(*rapid.T) {
	for more := true; more; {
		r, err := a.acts.Pages().Back(a.t.Context(), nil, everything)
		if err != nil {
			a.t.Fatal(err)
		}
		more = r.More
	}
}

func (a *acting) replay(t *rapid.T) {
	if _, err := a.acts.Replay(a.t.Context(), rapid.IntRange(1, 12).Draw(t, "n")); err != nil {
		t.Fatal(err)
	}
}

// pick deletes one here and there.
func (a *acting) pick(t *rapid.T) {
	var some []string
	for _, i := range rapid.SliceOfN(rapid.IntRange(0, a.next), 1, 4).Draw(t, "ids") {
		some = append(some, fmt.Sprint("t:0:", i))
	}
	sel := deadset.Selection{Filter: filter.IDs(some), Before: time.Now(), Operation: "op_2"}
	if _, err := choose(a.t, a.acts, sel).Delete(a.t.Context(), nil, everything); err != nil {
		t.Fatal(err)
	}
}

// copies puts messages there that share id and time of death, and are not the same.
func (a *acting) copies(t *rapid.T) {
	a.later()
	id, died := rapid.IntRange(0, a.next).Draw(t, "id"), time.Now()
	for i := range rapid.IntRange(2, 5).Draw(t, "n") {
		e := deadOf(id, died)
		e.Message.Value = fmt.Append(nil, "copy ", i)
		put(a.t, a.b, dead, e.Encode())
	}
}

// again has all die once more, with the same ids, and sorts them into pages as before.
func (a *acting) again(t *rapid.T) {
	a.replay(t)
	for _, d := range take(a.t, a.b, ready) {
		var i int
		if _, err := fmt.Sscanf(d.ID, "t:0:%d", &i); err != nil {
			t.Fatal(err)
		}
		a.later()
		buryMore(a.t, a.b, i, 1)
	}
	if rapid.Bool().Draw(t, "sort") {
		a.sort(t)
	}
}

// abort has a look end at one of its steps.
func (a *acting) abort(t *rapid.T) {
	synctest.Wait()
	time.Sleep(2 * time.Second)
	ctx, cancel := context.WithCancel(a.t.Context())
	defer cancel()
	a.f.mu.Lock()
	a.f.steps, a.f.at, a.f.crash = 0, rapid.IntRange(1, 30).Draw(t, "step"), func() { a.b.SetUp(false); cancel() }
	a.f.mu.Unlock()
	_, _ = a.remembers.Groups(ctx, filter.Filter{})
	synctest.Wait() // what it held is given back, or was cut off at that
	a.f.mu.Lock()
	a.f.at = 0
	a.f.mu.Unlock()
	a.b.SetUp(true)
	synctest.Wait()
}

func (a *acting) look(t *rapid.T) {
	got := looks(a.t, a.remembers)
	if want := looks(a.t, forgetful(a.b)); got != want {
		t.Fatalf("it tells %s\nand there is %s\npages of %v", got, want, inPages(a.t, a.b))
	}
}

func TestWhateverAnotherProcessDoesALookTellsWhatThereIs(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, _ *deadset.Set) {
		rapid.Check(timeless{t}, func(rt *rapid.T) {
			for k := range deadset.MaxPages {
				b.Delete(deadset.PageOf(dead, k))
			}
			b.Delete(dead)
			b.Delete(ready)
			if err := b.Declare(t.Context(), []queue.Spec{{Name: dead, Kind: queue.DeadSet}, {Name: ready, Kind: queue.Instant, Target: dead}}); err != nil {
				rt.Fatal(err)
			}
			f := &faulty{Broker: b}
			s, _ := remembering(f, deadset.NewIndex(1<<20))
			a := &acting{t: t, b: b, acts: paged(b, deadset.MaxPages), remembers: s, f: f}
			rt.Repeat(map[string]func(*rapid.T){
				"bury": a.bury, "copies": a.copies, "sort": a.sort, "unsort": a.unsort, "replay": a.replay, "pick": a.pick, "again": a.again, "abort": a.abort, "look": a.look,
			})
			a.look(rt)
		})
	})
}

// timeless is a test on a false clock, of which nobody may ask until when it may run.
type timeless struct{ rapid.TB }
