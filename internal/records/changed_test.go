package records

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell/embedded/memory"
	"github.com/stepwell/stepwell/internal/queue"
)

// told says whether who waits is told; it waits until nothing moves any more.
func told(changed <-chan struct{}) bool {
	synctest.Wait()
	select {
	case <-changed:
		return true
	default:
		return false
	}
}

func TestWhoWaitsForAKindIsToldOfEachChangeOfItAndOfNoOther(t *testing.T) {
	inMemory(t, func(t *testing.T, w *world, _ *memory.Broker) {
		s, other := w.ready(w.store()), w.ready(w.store())
		for n := range 3 {
			of, another := s.Changed("k"), s.Changed("l")
			w.set(other, "a", n)
			if !told(of) || told(another) {
				t.Errorf("change %d: told of k %v, and of l, which has none, %v", n, told(of), told(another))
			}
		}
		if told(s.Changed("k")) {
			t.Error("who waits for the next change is told of the last")
		}
	})
}

func TestWhoWaitsIsToldWhenTheRecordsComeToBeKnownAndWhyTheyAreNot(t *testing.T) {
	inMemory(t, func(t *testing.T, w *world, b *memory.Broker) {
		w.set(w.ready(w.store()), "a", 1)
		s := New(Config{Broker: w.Broker, Log: w.log, pause: time.Millisecond})
		changed := s.Changed("l")
		run(t, s.Run)
		time.Sleep(time.Second)
		if known, _ := s.Status(); !known || !told(changed) {
			t.Errorf("known %v, told %v", known, told(changed))
		}
		changed = s.Changed("l")
		b.SetUp(false)
		if !told(changed) {
			t.Error("of a cut nobody is told")
		}
		changed = s.Changed("l")
		time.Sleep(time.Minute)
		if told(changed) {
			t.Error("that it is still cut off is told again")
		}
	})
}

// Each second it tries again, and fails for the same reason.
func TestWhyTheLogIsNotReadIsToldOnce(t *testing.T) {
	inMemory(t, func(t *testing.T, w *world, _ *memory.Broker) {
		s := (&world{Broker: forbidden{w.Broker}, t: t, log: w.log}).store()
		time.Sleep(time.Second / 2)
		changed := s.Changed("k")
		time.Sleep(time.Minute)
		if told(changed) {
			t.Error("who waits is told of what he knew")
		}
		if _, ok, err := s.Get("k", "a"); ok || !errors.Is(err, ErrUnknown) || !errors.Is(err, errForbidden) {
			t.Errorf("why is not said: %v, %v", ok, err)
		}
		if _, ok, err := s.Current("k", "a"); ok || !errors.Is(err, ErrUnknown) || !errors.Is(err, errForbidden) {
			t.Errorf("why is not said: %v, %v", ok, err)
		}
		none := New(Config{Broker: w.Broker}) // nothing is wrong: it has not begun
		if _, ok, err := none.Get("k", "a"); ok || !errors.Is(err, ErrUnknown) || strings.Contains(err.Error(), "%!") {
			t.Errorf("what is wrong is said though nothing is: %v, %v", ok, err)
		}
	})
}

func TestOnceTheLogIsGoneNothingOfItIsToldAnyMore(t *testing.T) {
	inMemory(t, func(t *testing.T, w *world, b *memory.Broker) {
		s := w.ready(w.store())
		w.set(s, "a", 1)
		changed := s.Changed("l")
		b.Delete(w.log)
		if !told(changed) {
			t.Error("nobody is told")
		}
		if r, ok, err := s.Get("k", "a"); !errors.Is(err, ErrUnknown) || ok {
			t.Errorf("Get: %v, %v, %v", r, ok, err)
		}
		if r, ok, err := s.Current("k", "a"); !errors.Is(err, ErrUnknown) || ok {
			t.Errorf("Current: %v, %v, %v", r, ok, err)
		}
		if all, err := s.All("k"); !errors.Is(err, ErrUnknown) {
			t.Errorf("All: %v, %v", all, err)
		}
	})
}

// Nor is it known whether a record is there once nobody can say where the log ends.
func TestTheLatestIsNotKnownUnderAnAlarm(t *testing.T) {
	inMemory(t, func(t *testing.T, w *world, _ *memory.Broker) {
		var alarm atomic.Bool
		s := w.ready((&world{Broker: mute{w.Broker, &alarm}, t: t, log: w.log}).store())
		w.set(s, "a", 1)
		alarm.Store(true)
		for _, name := range []string{"a", "b"} {
			if r, ok, err := s.Latest(t.Context(), "k", name); !errors.Is(err, ErrUnknown) || ok {
				t.Errorf("%s: %v, %v, %v", name, r, ok, err)
			}
		}
	})
}

// It knows the log again by the entry that it read last.
func TestAfterAnOutageALogIsReadOnAndNotFromItsBeginning(t *testing.T) {
	inMemory(t, func(t *testing.T, w *world, b *memory.Broker) {
		broker := stuckOn(w.Broker)
		s := w.ready((&world{Broker: broker, t: t, log: w.log}).store())
		w.set(s, "a", 1)
		for n := range int64(3) {
			b.SetUp(false)
			time.Sleep(time.Minute)
			b.SetUp(true)
			time.Sleep(time.Minute)
			w.set(s, "a", int(n))
			if known, trouble := s.Status(); !known || trouble != nil || broker.follows.Load() != n+2 {
				t.Errorf("outage %d: known %v, %v, and it was followed %d times", n, known, trouble, broker.follows.Load())
			}
		}
	})
}

// Half of it can be read: it counts nowhere, or it would with some releases and not with others.
func TestAnEntryOfWhichAPartCannotBeReadIsLeftOutAsAWhole(t *testing.T) {
	inMemory(t, func(t *testing.T, w *world, _ *memory.Broker) {
		s := w.ready(w.store())
		w.set(s, "a", 1)
		stored := make(chan error, 1)
		body := []byte(`{"kind":"k","name":"a","seen":900,"value":2,"until":"tomorrow"}`)
		w.Publisher("other").Publish(t.Context(), w.log, queue.Message{Body: body}, func(err error) { stored <- err })
		if err := <-stored; err != nil {
			t.Fatal(err)
		}
		w.is(s, "a", "1")
		w.set(s, "a", 3)
		w.is(s, "a", "3")
	})
}

// twice publishes each message two times, and tells nobody: the connection is lost in between.
type twice struct{ queue.Broker }

func (b twice) Publisher(name string) queue.Publisher {
	return twicePublisher{b.Broker.Publisher(name)}
}

type twicePublisher struct{ queue.Publisher }

func (p twicePublisher) Publish(ctx context.Context, name string, m queue.Message, _ func(error)) {
	for range 2 {
		p.Publisher.Publish(ctx, name, m, func(error) {})
	}
}

func TestAnEntryThatComesTwiceHoldsNobodyUp(t *testing.T) {
	inMemory(t, func(t *testing.T, w *world, _ *memory.Broker) {
		other := w.ready(w.store())
		s := (&world{Broker: twice{w.Broker}, t: t, log: w.log}).store()
		time.Sleep(time.Second) // its marks come back
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := put(ctx, s, "k", "a"); err == nil {
			t.Error("it is said to be stored, and nobody said so")
		}
		if r, ok, err := s.Get("k", "a"); err != nil || !ok || string(r.Value) != "1" {
			t.Errorf("Get: %v, %v, %v", r, ok, err)
		}
		w.is(other, "a", "1")
	})
}
