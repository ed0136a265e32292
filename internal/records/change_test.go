package records

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell/embedded/memory"
	"github.com/stepwell/stepwell/internal/queue"
)

// put stores 1 under any kind.
func put(ctx context.Context, s *Store, kind, name string) error {
	return s.Change(ctx, kind, name, func(r Record) (Record, error) {
		r.Value = json.RawMessage("1")
		return r, nil
	})
}

// large is a store that is ready, and whose records of the kind large may be large.
func (w *world) large(b queue.Broker) *Store {
	w.t.Helper()
	log := slog.New(slog.NewTextHandler(w.t.Output(), nil))
	s := New(Config{Broker: b, Log: w.log, Logger: log, Large: map[string]int{"large": 10 * MostValue}, pause: time.Millisecond})
	run(w.t, s.Run)
	return w.ready(s)
}

// sluggish needs a second for each message, and knows how many changes were under way at a time.
type sluggish struct {
	queue.Broker
	mu           *sync.Mutex
	under, atMax *int
}

func (b sluggish) Publisher(name string) queue.Publisher {
	return sluggishPublisher{b.Broker.Publisher(name), b}
}

type sluggishPublisher struct {
	queue.Publisher
	b sluggish
}

func (p sluggishPublisher) Publish(ctx context.Context, name string, m queue.Message, done func(error)) {
	change := strings.Contains(string(m.Body), `"name"`) // else it is a mark
	count := func(n int) {
		if !change {
			return
		}
		p.b.mu.Lock()
		defer p.b.mu.Unlock()
		*p.b.under += n
		*p.b.atMax = max(*p.b.atMax, *p.b.under)
	}
	count(1)
	time.AfterFunc(time.Second, func() {
		count(-1)
		p.Publisher.Publish(ctx, name, m, done)
	})
}

func TestOneChangeIsUnderWayAtATimeWhereValuesAreLargeAndManyWhereTheyAreNot(t *testing.T) {
	for kind, want := range map[string]int{"large": 1, "k": 10} {
		inMemory(t, func(t *testing.T, w *world, _ *memory.Broker) {
			broker := sluggish{w.Broker, &sync.Mutex{}, new(int), new(int)}
			s := w.large(broker)
			var all sync.WaitGroup
			for i := range 10 {
				all.Go(func() {
					if err := put(within(t), s, kind, strconv.Itoa(i)); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			if got := *broker.atMax; got != want {
				t.Errorf("%d changes of the kind %s were under way at a time, not %d", got, kind, want)
			}
		})
	}
}

// Under an alarm no change ends, and those that wait for their turn must not pass for stored.
func TestAChangeWhoseTurnDoesNotComeInTimeIsNotMadeAndSaysSo(t *testing.T) {
	for kind, under := range map[string]int{"large": 1, "k": 100} {
		inMemory(t, func(t *testing.T, w *world, _ *memory.Broker) {
			var alarm atomic.Bool
			s := w.large(mute{w.Broker, &alarm})
			alarm.Store(true)
			var all sync.WaitGroup
			for i := range under {
				all.Go(func() { _ = put(within(t), s, kind, strconv.Itoa(i)) })
			}
			time.Sleep(time.Second)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			err := s.Change(ctx, kind, "one more", func(r Record) (Record, error) {
				t.Errorf("%s: it was asked what becomes of the record", kind)
				return r, nil
			})
			if !errors.Is(err, ErrUnknown) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", kind, err)
			}
			alarm.Store(false)
			all.Wait()
			if err := put(within(t), s, kind, "one more"); err != nil {
				t.Errorf("%s after the alarm: %v", kind, err)
			}
		})
	}
}

func TestAChangeThatComesBeforeTheLogWasReadWaitsForThatAndSeesWhatIsThere(t *testing.T) {
	inMemory(t, func(t *testing.T, w *world, _ *memory.Broker) {
		w.set(w.ready(w.store()), "a", 1)
		saw := ""
		err := w.store().Change(within(t), "k", "a", func(r Record) (Record, error) {
			saw = string(r.Value)
			r.Value = json.RawMessage("2")
			return r, nil
		})
		if err != nil || saw != "1" {
			t.Errorf("it saw %q, %v", saw, err)
		}
		w.is(w.ready(w.store()), "a", "2")
	})
}

// The log is read anew perhaps between two tries of one change.
func TestNoEntryIsMadeOfWhatIsNotKnown(t *testing.T) {
	s := New(Config{Broker: memory.New()})
	e, err := s.next("k", "a", func(r Record) (Record, error) {
		t.Error("it was asked what becomes of the record")
		return r, nil
	})
	if e != nil || !errors.Is(err, ErrUnknown) {
		t.Errorf("%+v, %v", e, err)
	}
}

// What is written now may push out what is old, so that comes first.
func TestAChangeIsNotMadeWhereWhatIsOldCannotBeWrittenAgain(t *testing.T) {
	inMemory(t, func(t *testing.T, w *world, _ *memory.Broker) {
		var alarm atomic.Bool
		s := w.ready((&world{Broker: mute{w.Broker, &alarm}, t: t, log: w.log}).store())
		w.set(s, "kept", 7)
		w.outgrow()
		alarm.Store(true)
		err := put(t.Context(), s, "k", "more")
		if err == nil || !strings.Contains(err.Error(), "write record kept") {
			t.Errorf("it is said to be stored, or not why it is not: %v", err)
		}
		alarm.Store(false)
		w.is(s, "more", "")
		w.is(w.ready(w.store()), "kept", "7")
	})
}

func TestAValueOfAsManyBytesAsThereMayBeIsStored(t *testing.T) {
	inMemory(t, func(t *testing.T, w *world, b *memory.Broker) {
		s := w.large(b)
		for kind, most := range map[string]int{"k": MostValue, "large": 10 * MostValue} {
			for over, want := range map[int]error{0: nil, 1: ErrRefused} {
				err := s.Change(t.Context(), kind, "a", func(r Record) (Record, error) {
					r.Value = json.RawMessage(strconv.Quote(strings.Repeat("x", most+over-len(`""`))))
					return r, nil
				})
				if !errors.Is(err, want) {
					t.Errorf("%d bytes more than the most of the kind %s: %v", over, kind, err)
				}
			}
		}
	})
}

func TestKindAndNameOfAsManyBytesAsThereMayBeAreStored(t *testing.T) {
	inMemory(t, func(t *testing.T, w *world, _ *memory.Broker) {
		s := w.ready(w.store())
		for over, want := range map[int]error{0: nil, 1: ErrRefused} {
			if err := put(t.Context(), s, "k", strings.Repeat("x", 512-1+over)); !errors.Is(err, want) {
				t.Errorf("%d bytes more than the most: %v", over, err)
			}
		}
		if err := put(t.Context(), s, "", "a"); !errors.Is(err, ErrRefused) {
			t.Errorf("no kind: %v", err)
		}
	})
}

// The other's entry is in the log, and this process has not read it yet.
func TestWhoDecidesBeforeItReadWhatAnotherWroteIsAskedAgain(t *testing.T) {
	for what, value := range map[string]json.RawMessage{"removes": nil, "replaces": json.RawMessage("3")} {
		inMemory(t, func(t *testing.T, w *world, _ *memory.Broker) {
			s, other := w.ready(w.store()), w.ready(w.store())
			w.set(s, "a", 1)
			var saw []string
			err := s.Change(within(t), "k", "a", func(r Record) (Record, error) {
				if saw = append(saw, string(r.Value)); len(saw) == 1 {
					w.set(other, "a", 2)
				}
				r.Value = value
				return r, nil
			})
			if err != nil || !slices.Equal(saw, []string{"1", "2"}) {
				t.Errorf("who %s it saw %v, %v", what, saw, err)
			}
			w.is(other, "a", string(value))
		})
	}
}

// outgrow has the log grow so much that what was written before is to be written again.
func (w *world) outgrow() {
	w.t.Helper()
	if err := w.others(oldAt/MostValue+1, MostValue); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait() // all have read that
}

func TestWhatIsWrittenAgainDoesNotUndoWhatAnotherWroteMeanwhile(t *testing.T) {
	for what, become := range map[string]func(*world, *Store){
		"8": func(w *world, s *Store) { w.set(s, "kept", 8) },
		"":  func(w *world, s *Store) { w.remove(s, "kept") },
	} {
		inMemory(t, func(t *testing.T, w *world, _ *memory.Broker) {
			s := w.ready((&world{Broker: sluggish{w.Broker, &sync.Mutex{}, new(int), new(int)}, t: t, log: w.log}).store())
			other := w.ready(w.store())
			w.set(s, "kept", 7)
			w.outgrow()
			var changing sync.WaitGroup
			changing.Go(func() {
				if err := put(within(t), s, "k", "more"); err != nil { // what it writes again is under way for a second
					t.Error(err)
				}
			})
			time.Sleep(500 * time.Millisecond)
			become(w, other)
			changing.Wait()
			w.is(other, "kept", what)
			w.is(s, "kept", what)
		})
	}
}

// One who has read up to the same place as a thousand others has its entry come too late.
func TestHoweverManyRecordsAreOldAllAreWrittenAgainBeforeTheNextChange(t *testing.T) {
	inMemory(t, func(t *testing.T, w *world, _ *memory.Broker) {
		const records = mostBehind + mostBehind/2
		s := w.ready((&world{Broker: sluggish{w.Broker, &sync.Mutex{}, new(int), new(int)}, t: t, log: w.log}).store())
		other := w.ready(w.store())
		for i := range records {
			w.set(other, strconv.Itoa(i), i)
		}
		w.outgrow()
		if err := put(within(t), s, "k", "more"); err != nil {
			t.Fatal(err)
		}
		late := newFold() // as of one who has read only what came since
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_ = w.Follow(ctx, w.log, records+oldAt/MostValue, func(e queue.Entry) {
			var in entry
			if json.Unmarshal(e.Body, &in) == nil {
				late.apply(e.Offset, len(e.Body), &in)
			}
		})
		if n := len(late.kinds["k"]); n != records+1 {
			t.Errorf("%d records are there, not %d and the one that was changed", n, records)
		}
	})
}
