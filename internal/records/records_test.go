package records

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
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

// world is a broker that runs, and stores that read its log.
type world struct {
	queue.Broker
	t   testing.TB
	log string
}

// run runs f until the test ends.
func run(t testing.TB, f func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := f(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	stop = func() { cancel(); running.Wait() }
	t.Cleanup(stop)
	return stop
}

// store makes a store and runs it: a process of its own.
func (w *world) store() *Store {
	w.t.Helper()
	s := New(Config{Broker: w.Broker, Log: w.log, Logger: slog.New(slog.NewTextHandler(w.t.Output(), nil)), pause: time.Millisecond})
	run(w.t, s.Run)
	return s
}

// within is a context that ends long after what it is for should be done.
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// ready waits until the store knows its records.
func (w *world) ready(s *Store) *Store {
	w.t.Helper()
	if err := s.Sync(within(w.t)); err != nil {
		w.t.Fatal(err)
	}
	return s
}

// set stores a value, which is a number.
func (w *world) set(s *Store, name string, n int) {
	w.t.Helper()
	err := s.Change(within(w.t), "k", name, func(r Record) (Record, error) {
		r.Value = json.RawMessage(strconv.Itoa(n))
		return r, nil
	})
	if err != nil {
		w.t.Fatalf("set %s: %v", name, err)
	}
}

// remove removes a record.
func (w *world) remove(s *Store, name string) {
	w.t.Helper()
	if err := s.Change(within(w.t), "k", name, func(Record) (Record, error) { return Record{}, nil }); err != nil {
		w.t.Fatalf("remove %s: %v", name, err)
	}
}

// is fails the test unless the record has that value; "": there is none.
func (w *world) is(s *Store, name, want string) {
	w.t.Helper()
	if r, ok, err := s.Latest(within(w.t), "k", name); err != nil || ok != (want != "") || string(r.Value) != want {
		w.t.Errorf("%s is %q, %v, %v, not %q", name, r.Value, ok, err, want)
	}
}

// everyPlace calls test with each kind of broker: here the one in memory, on a false clock.
func inMemory(t *testing.T, test func(t *testing.T, w *world, b *memory.Broker)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := memory.New()
		run(t, b.Run)
		test(t, &world{Broker: b, t: t, log: "app.records"}, b)
	})
}

func TestARecordThatIsStoredIsFoundByEveryProcess(t *testing.T) {
	inMemory(t, func(_ *testing.T, w *world, _ *memory.Broker) { found(w) })
}

func found(w *world) {
	one, two := w.ready(w.store()), w.ready(w.store())
	w.is(one, "a", "")
	w.set(one, "a", 1)
	w.is(two, "a", "1")
	w.set(two, "a", 2)
	w.set(two, "b", 3)
	w.is(one, "a", "2")
	w.is(w.ready(w.store()), "b", "3")
	w.remove(two, "a")
	w.is(one, "a", "")
	w.is(w.ready(w.store()), "a", "")
	w.set(one, "a", 4)
	w.is(two, "a", "4")
	if all, err := two.All("k"); err != nil || len(all) != 2 {
		w.t.Errorf("all are %v, %v", all, err)
	}
}

func TestNoChangeOfManyWritersIsLost(t *testing.T) {
	inMemory(t, func(_ *testing.T, w *world, _ *memory.Broker) { counted(w) })
}

// counted has many add to one number: each reads it and writes one more.
func counted(w *world) {
	const writers, times = 8, 25
	var g sync.WaitGroup
	for range writers {
		s := w.ready(w.store())
		g.Go(func() {
			for range times {
				err := s.Change(within(w.t), "k", "n", func(r Record) (Record, error) {
					n := 0
					if r.Value != nil {
						if err := json.Unmarshal(r.Value, &n); err != nil {
							return r, err
						}
					}
					r.Value = json.RawMessage(strconv.Itoa(n + 1))
					return r, nil
				})
				if err != nil {
					w.t.Error(err)
				}
			}
		})
	}
	g.Wait()
	w.is(w.ready(w.store()), "n", strconv.Itoa(writers*times))
}

func TestWhatIsOutOfDateIsNotFound(t *testing.T) {
	inMemory(t, func(t *testing.T, w *world, _ *memory.Broker) {
		s := w.ready(w.store())
		err := s.Change(t.Context(), "k", "a", func(r Record) (Record, error) {
			r.Value, r.Until = json.RawMessage("1"), time.Now().Add(time.Hour)
			return r, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		w.is(s, "a", "1")
		time.Sleep(2 * time.Hour)
		w.is(s, "a", "")
		if all, err := s.All("k"); err != nil || len(all) != 0 {
			t.Errorf("all are %v, %v", all, err)
		}
		w.set(s, "a", 2)
		w.is(s, "a", "2")
	})
}

func TestAChangeThatCannotBeIsRefusedAndNothingIsStored(t *testing.T) {
	inMemory(t, func(t *testing.T, w *world, _ *memory.Broker) {
		s := w.ready(w.store())
		mine := errors.New("mine")
		for what, c := range map[string]struct {
			name  string
			value string
			err   error
			want  error
		}{
			"no name":        {"", "1", nil, ErrRefused},
			"a long name":    {strings.Repeat("x", MostName), "1", nil, ErrRefused},
			"a large value":  {"a", strconv.Quote(strings.Repeat("x", MostValue)), nil, ErrRefused},
			"no JSON":        {"a", "{", nil, ErrRefused},
			"an own mistake": {"a", "1", mine, mine},
		} {
			err := s.Change(t.Context(), "k", c.name, func(Record) (Record, error) {
				return Record{Value: json.RawMessage(c.value)}, c.err
			})
			if !errors.Is(err, c.want) {
				t.Errorf("%s: %v", what, err)
			}
		}
		for i := range Most {
			w.set(s, fmt.Sprint(i), i)
		}
		more := func(name string) {
			t.Helper()
			err := s.Change(t.Context(), "k", name, func(Record) (Record, error) { return Record{Value: json.RawMessage("1")}, nil })
			if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "10000 of a kind") {
				t.Errorf("one too many: %v", err)
			}
		}
		more("more")
		w.set(s, "7", 8)
		if all, err := s.All("k"); err != nil || len(all) != Most {
			t.Errorf("there are %d, %v", len(all), err)
		}
		w.remove(s, "7")
		w.set(s, "more", 1) // in its place
		more("7")
	})
}

func TestBeforeTheLogWasReadNothingIsMadeUp(t *testing.T) {
	inMemory(t, func(t *testing.T, w *world, b *memory.Broker) {
		w.set(w.ready(w.store()), "a", 1)
		b.SetUp(false)
		s := w.store()
		time.Sleep(time.Minute)
		if _, _, err := s.Get("k", "a"); !errors.Is(err, ErrUnknown) {
			t.Errorf("Get: %v", err)
		}
		if _, err := s.All("k"); !errors.Is(err, ErrUnknown) {
			t.Errorf("All: %v", err)
		}
		if err := s.Change(t.Context(), "k", "a", func(r Record) (Record, error) { return r, nil }); !errors.Is(err, ErrUnknown) {
			t.Errorf("Change: %v", err)
		}
		if err := s.Sync(t.Context()); !errors.Is(err, ErrUnknown) {
			t.Errorf("Sync: %v", err)
		}
		if known, _ := s.Status(); known {
			t.Error("Status: they are known")
		}
		b.SetUp(true)
		time.Sleep(time.Minute)
		if known, trouble := s.Status(); !known || trouble != nil {
			t.Errorf("Status after the outage: %v, %v", known, trouble)
		}
		if r, ok, err := s.Get("k", "a"); err != nil || !ok || string(r.Value) != "1" {
			t.Errorf("Get after the outage: %v, %v, %v", r, ok, err)
		}
	})
}

// After an outage it reads on where it was, and what it knew is still told in between.
func TestAnOutageEndsWithAllThatOthersWroteMeanwhile(t *testing.T) {
	inMemory(t, func(t *testing.T, w *world, b *memory.Broker) {
		s := w.ready(w.store())
		w.set(s, "a", 1)
		b.SetUp(false)
		time.Sleep(time.Minute)
		if r, ok, err := s.Get("k", "a"); err != nil || !ok || string(r.Value) != "1" {
			t.Errorf("Get during the outage: %v, %v, %v", r, ok, err)
		}
		b.SetUp(true)
		w.set(w.ready(w.store()), "a", 2)
		w.is(s, "a", "2")
		w.set(s, "a", 3)
	})
}

// Who was cut off knows nothing of what others wrote meanwhile, until it has read on to the end.
func TestWhatMustNotBeOutOfDateIsUnknownFromACutUntilTheLogWasReadToItsEndAgain(t *testing.T) {
	inMemory(t, func(t *testing.T, w *world, b *memory.Broker) {
		s := w.ready(w.store())
		w.set(s, "a", 1)
		if r, ok, err := s.Current("k", "a"); err != nil || !ok || string(r.Value) != "1" {
			t.Errorf("Current while all is well: %v, %v, %v", r, ok, err)
		}
		b.SetUp(false)
		time.Sleep(time.Minute)
		if _, _, err := s.Current("k", "a"); !errors.Is(err, ErrUnknown) {
			t.Errorf("Current during the outage: %v", err)
		}
		b.SetUp(true)
		w.set(w.ready(w.store()), "a", 2)
		time.Sleep(time.Minute)
		if r, ok, err := s.Current("k", "a"); err != nil || !ok || string(r.Value) != "2" {
			t.Errorf("Current after the outage: %v, %v, %v", r, ok, err)
		}
	})
}

// slowly hands out an entry a second.
type slowly struct{ queue.Broker }

func (b slowly) Follow(ctx context.Context, log string, from int64, entry func(queue.Entry)) error {
	return b.Broker.Follow(ctx, log, from, func(e queue.Entry) {
		select {
		case <-time.After(time.Second):
			entry(e)
		case <-ctx.Done():
		}
	})
}

func TestWhoReadsSlowlyComesToTheEndOfTheLog(t *testing.T) {
	inMemory(t, func(t *testing.T, w *world, _ *memory.Broker) {
		s := w.ready(w.store())
		for i := range 100 {
			w.set(s, strconv.Itoa(i), i)
		}
		late := (&world{Broker: slowly{w.Broker}, t: t, log: w.log}).store()
		tries := 0
		for ; late.Sync(within(t)) != nil; tries++ {
			if tries == 10 {
				t.Fatal("it does not come to the end")
			}
		}
		if tries == 0 {
			t.Error("it came to the end at once, and nothing is shown")
		}
		w.is(late, "99", "99")
	})
}

// The log drops its oldest entries whoever made it grow.
func TestWhoOnlyAsksWritesAgainWhatTheLogWouldDrop(t *testing.T) {
	inMemory(t, func(t *testing.T, w *world, _ *memory.Broker) {
		s := w.ready(w.store())
		w.set(s, "kept", 7)
		if err := w.others(oldAt/MostValue+1, MostValue); err != nil {
			t.Fatal(err)
		}
		w.is(s, "kept", "7") // a question
		var places []int64
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_ = w.Follow(ctx, w.log, 0, func(e queue.Entry) {
			if strings.Contains(string(e.Body), "kept") {
				places = append(places, e.Offset)
			}
		})
		if len(places) != 2 || places[1] <= oldAt/MostValue {
			t.Errorf("the record stands at %d, not at its place and at the end", places)
		}
	})
}

// An operator deletes the queue: its records are gone, for all in the same way.
func TestALogThatIsDeletedBeginsAnew(t *testing.T) {
	inMemory(t, func(t *testing.T, w *world, b *memory.Broker) {
		one, two := w.ready(w.store()), w.ready(w.store())
		for i := range 50 {
			w.set(one, fmt.Sprint(i), i)
		}
		b.Delete(w.log)
		time.Sleep(2 * time.Minute)
		for _, s := range []*Store{one, two} {
			w.is(s, "7", "")
		}
		w.set(two, "a", 1)
		w.is(one, "a", "1")
	})
}

// absent follows no log as long as it is away.
type absent struct {
	queue.Broker
	away, back chan struct{}
}

func (b absent) Follow(ctx context.Context, log string, from int64, entry func(queue.Entry)) error {
	select {
	case <-b.away:
		select {
		case <-b.back:
			return b.Broker.Follow(ctx, log, from, entry)
		case <-ctx.Done():
			return ctx.Err()
		}
	default:
	}
	following, end := context.WithCancel(ctx)
	defer end()
	go func() {
		select {
		case <-b.away:
			end()
		case <-following.Done():
		}
	}()
	return fmt.Errorf("%w: %w", queue.ErrUnavailable, b.Broker.Follow(following, log, from, entry))
}

// It has more entries by then than whoever was cut off had read of the one before.
func TestALogThatIsMadeAnewWhileAProcessIsCutOffIsTakenForNoOther(t *testing.T) {
	inMemory(t, func(t *testing.T, w *world, b *memory.Broker) {
		broker := absent{w.Broker, make(chan struct{}), make(chan struct{})}
		s := w.ready((&world{Broker: broker, t: t, log: w.log}).store())
		w.set(s, "of the old log", 1)
		close(broker.away)
		time.Sleep(time.Second)
		b.Delete(w.log)
		other := w.ready(w.store())
		for i := range 50 {
			w.set(other, fmt.Sprint(i), i)
		}
		close(broker.back)
		time.Sleep(2 * time.Minute)
		w.is(s, "7", "7")
		w.is(s, "of the old log", "")
	})
}

// forbidden makes no queue.
type forbidden struct{ queue.Broker }

var errForbidden = errors.New("forbidden")

func (forbidden) Declare(context.Context, []queue.Spec) error { return errForbidden }

// Where the log cannot be had at all each call that is put off asks once more.
func TestWhoAsksInVainIsForgotten(t *testing.T) {
	inMemory(t, func(t *testing.T, w *world, _ *memory.Broker) {
		s := (&world{Broker: forbidden{w.Broker}, t: t, log: w.log}).store()
		for range 1000 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if err := s.Sync(ctx); !errors.Is(err, ErrUnknown) || !errors.Is(err, errForbidden) {
				t.Errorf("Sync, which is to say why: %v", err)
			}
			cancel()
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if n := len(s.asking); n > 0 {
			t.Errorf("%d who asked are kept", n)
		}
	})
}

// mute confirms nothing that is published while an alarm is on.
type mute struct {
	queue.Broker
	alarm *atomic.Bool
}

func (b mute) Publisher(name string) queue.Publisher {
	return mutePublisher{b.Broker.Publisher(name), b.alarm}
}

func (b mute) Status() queue.Status {
	return queue.Status{Up: true, Blocked: b.alarm.Load(), Detail: "it takes no messages"}
}

type mutePublisher struct {
	queue.Publisher
	alarm *atomic.Bool
}

func (p mutePublisher) Publish(ctx context.Context, name string, m queue.Message, done func(error)) {
	if !p.alarm.Load() {
		p.Publisher.Publish(ctx, name, m, done)
	}
}

// What is on its way as an alarm begins is told of when the alarm is over, hours later perhaps.
func TestWhoWritesUnderAnAlarmIsToldInTime(t *testing.T) {
	inMemory(t, func(t *testing.T, w *world, _ *memory.Broker) {
		var alarm atomic.Bool
		s := w.ready((&world{Broker: mute{w.Broker, &alarm}, t: t, log: w.log}).store())
		w.set(s, "a", 1)
		alarm.Store(true)
		began := time.Now()
		for _, wait := range []time.Duration{time.Second, time.Hour} {
			ctx, cancel := context.WithTimeout(t.Context(), wait)
			err := s.Change(ctx, "k", "a", func(r Record) (Record, error) { return r, nil })
			if err == nil || !strings.Contains(err.Error(), "it takes no messages") {
				t.Errorf("it is said to be stored, or not why it is not: %v", err)
			}
			cancel()
		}
		if took := time.Since(began); took > 2*s.cfg.patience {
			t.Errorf("it took %s", took)
		}
		if err := s.Sync(t.Context()); err == nil || !strings.Contains(err.Error(), "it takes no messages") {
			t.Errorf("why nobody knows the end of the log is not said: %v", err)
		}
		if r, ok, err := s.Current("k", "a"); err != nil || !ok || string(r.Value) != "1" {
			t.Errorf("what was read before the alarm is not known any more: %v, %v, %v", r, ok, err)
		}
		alarm.Store(false)
		w.set(s, "a", 2)
	})
}
