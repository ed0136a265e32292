package operations

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell/embedded/memory"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/records"
)

func TestWhatRanAndNobodyKnowsAnyMoreCanBeCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, p := memory.New(), &pile{match: 1000}
		background(t, b.Run)
		old := launch(t, b, "old", map[Target]DeadSet{orders: p})
		id := ask(t, old.Runner, request(orders), "1/m").ID
		time.Sleep(time.Second)
		next := launch(t, b, "next", map[Target]DeadSet{slow: &pile{}})
		old.stop()
		time.Sleep(time.Minute)
		if o := find(t, next.Runner, id); o.Phase != Queued || o.Why == "" {
			t.Errorf("it does not wait for a process that knows it: %+v", o.State)
		}
		if o := change(t, next.Runner, id, Cancelled); o.Phase != Cancelled {
			t.Errorf("%+v", o.State)
		}
	})
}

// deaf is a broker whose logs cannot be followed from some time on.
type deaf struct {
	queue.Broker
	is atomic.Bool
}

func (d *deaf) Follow(ctx context.Context, log string, from int64, handle func(queue.Entry)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		for ctx.Err() == nil {
			time.Sleep(100 * time.Millisecond)
			if d.is.Load() {
				cancel()
			}
		}
	}()
	if d.is.Load() {
		return errors.New("there is no copy on this node")
	}
	err := d.Broker.Follow(ctx, log, from, handle)
	if d.is.Load() {
		return errors.New("there is no copy on this node")
	}
	return err
}

func TestWhoCannotReadTheRecordsAnyMoreLeadsNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, p := memory.New(), &pile{match: 1000}
		background(t, b.Run)
		d := &deaf{Broker: b}
		first := launch(t, d, "first", map[Target]DeadSet{orders: p})
		id := ask(t, first.Runner, request(orders, 1000), "10/s").ID
		time.Sleep(5 * time.Second)
		second := launch(t, b, "second", map[Target]DeadSet{orders: p})
		d.is.Store(true)
		time.Sleep(2 * mute)
		if o := find(t, second.Runner, id); o.Runner != "second" {
			t.Errorf("%+v", o.State)
		}
		if _, err := first.Find(t.Context(), "op_unknown"); !errors.Is(err, ErrAway) {
			t.Errorf("who does not read any more says of what it does not know: %v", err)
		}
		time.Sleep(time.Hour)
		if o := find(t, second.Runner, id); o.Phase != Done || o.Done != 1000 {
			t.Errorf("%+v", o.State)
		}
	})
}

// The next process may have other settings, with which nobody takes what is replayed there.
func TestWhatIsNotPossibleWhereItGoesOnIsNotDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, p := memory.New(), &pile{match: 1000}
		background(t, b.Run)
		old := launch(t, b, "old", map[Target]DeadSet{orders: p})
		id := ask(t, old.Runner, request(orders), "10/s").ID
		time.Sleep(time.Second)
		old.stop()
		done := find(t, old.Runner, id).Done
		next := launch(t, b, "next", map[Target]DeadSet{orders: closed{p}})
		time.Sleep(time.Hour)
		if o := find(t, next.Runner, id); o.Done != done || o.Phase != Paused || o.Why == "" {
			t.Errorf("%+v", o.State)
		}
	})
}

// What dies while a sort runs is none of it, whoever goes on with it: else it might never end.
func TestASortThatAnotherProcessGoesOnWithEndsAtWhatWasThereWhenItBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, p := memory.New(), &pile{match: 1000}
		background(t, b.Run)
		old := launch(t, b, "old", map[Target]DeadSet{orders: p})
		wish := request(orders)
		wish.Action = Sort
		id := ask(t, old.Runner, wish, "10/s").ID
		time.Sleep(time.Second)
		old.stop()
		p.set(func(p *pile) { p.match += 5000 })
		next := launch(t, b, "next", map[Target]DeadSet{orders: p})
		time.Sleep(time.Hour)
		if o := find(t, next.Runner, id); o.Phase != Done || o.Done != 1000 || o.Matched != 1000 || o.Runner != "next" {
			t.Errorf("%+v", o.State)
		}
	})
}

type closed struct{ *pile }

func (closed) May(context.Context, *Request) error { return errors.New("nobody would take it") }

// refusing is a broker that lets nobody have a lease, and counts who asks; asked may be nil.
type refusing struct {
	queue.Broker
	asked *atomic.Int64
}

func (r refusing) Lease(context.Context, string) (queue.Lease, error) {
	if r.asked != nil {
		r.asked.Add(1)
	}
	return nil, errors.New("ACCESS_REFUSED")
}

// Nobody of the app may run operations, or none ever did: they live in the process that is asked.
func TestWhereNoProcessMayRunOperationsEachLivesInTheOneThatIsAskedAndSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, p, log := memory.New(), &pile{match: 10}, slog.New(slog.DiscardHandler)
		background(t, b.Run)
		store := records.New(records.Config{Broker: b, Log: "app.records", Logger: log, Large: Large()})
		background(t, store.Run)
		if err := store.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		e := &Election{Records: store, Broker: refusing{Broker: b}, Lease: "app.operations", Name: "here", Logger: log}
		sets := map[Target]DeadSet{orders: p}
		either := &Either{
			Alone: New(Config{Store: NewMemory(), Sets: sets, Logger: log}), Shared: New(Config{Store: NewShared(store), Sets: sets, Logger: log, Election: e}),
			Missing: func() error { return nil }, Impossible: e.Impossible,
		}
		background(t, either.Run)
		o, _, err := either.Ask(t.Context(), request(orders), Rate{}, "")
		if err != nil || !strings.Contains(o.Alone, "ACCESS_REFUSED") {
			t.Fatalf("%+v, %v", o.State, err)
		}
		time.Sleep(time.Minute)
		if o, err := either.Find(t.Context(), o.ID); err != nil || o.Phase != Done || o.Done != 10 {
			t.Errorf("%+v, %v", o.State, err)
		}
	})
}

// Another process may run them, and is away: what is asked for waits for it, and says so. Who may
// not asks seldom, since each question is an error in the log of the broker.
func TestAnOperationThatWaitsForAProcessThatMayRunItSaysWhyAndIsRunOnceThereIsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, p, log := memory.New(), &pile{match: 10}, slog.New(slog.DiscardHandler)
		background(t, b.Run)
		may := launch(t, b, "may", map[Target]DeadSet{orders: p})
		ask(t, may.Runner, request(orders), Unlimited)
		time.Sleep(time.Minute)
		may.stop()

		store := records.New(records.Config{Broker: b, Log: "app.records", Logger: log, Large: Large()})
		background(t, store.Run)
		if err := store.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		var asked atomic.Int64
		e := &Election{Records: store, Broker: refusing{b, &asked}, Lease: "app.operations", Name: "here", Logger: log}
		if why := e.Impossible(t.Context()); why != nil {
			t.Errorf("another one did lead: %v", why)
		}
		r := New(Config{Store: NewShared(store), Sets: map[Target]DeadSet{orders: p}, Logger: log, Election: e})
		background(t, r.Run)
		p.set(func(p *pile) { p.match = 10 })
		id := ask(t, r, request(orders), Unlimited).ID
		time.Sleep(time.Minute)
		all, err := r.List(t.Context())
		if o := find(t, r, id); o.Phase != Queued || !strings.Contains(o.Why, "this one may not: ACCESS_REFUSED") || err != nil || all[0].Why != o.Why {
			t.Errorf("%+v, %v, %v", o.State, all, err)
		}
		if n := asked.Load(); n < 2 || n > 20 {
			t.Errorf("it asked %d times in a minute", n)
		}
		next := launch(t, b, "next", map[Target]DeadSet{orders: p})
		time.Sleep(time.Minute)
		if o := find(t, next.Runner, id); o.Phase != Done || o.Why != "" || o.Done != 10 {
			t.Errorf("%+v", o.State)
		}
		if o := find(t, r, id); o.Phase != Done {
			t.Errorf("%+v", o.State)
		}
	})
}

func TestALeaseThatIsRefusedIsToldOfOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, p := memory.New(), &pile{match: 10}
		background(t, b.Run)
		var log bytes.Buffer
		store := records.New(records.Config{Broker: b, Log: "app.records", Logger: slog.New(slog.DiscardHandler), Large: Large()})
		background(t, store.Run)
		e := &Election{Records: store, Broker: refusing{Broker: b}, Lease: "app.operations", Name: "here", Logger: slog.New(slog.NewTextHandler(&log, nil))}
		r := New(Config{Store: NewShared(store), Sets: map[Target]DeadSet{orders: p}, Logger: slog.New(slog.DiscardHandler), Election: e})
		stop := background(t, r.Run)
		ask(t, r, request(orders), Unlimited)
		time.Sleep(time.Hour)
		stop()
		if n := strings.Count(log.String(), "ACCESS_REFUSED"); n != 1 {
			t.Errorf("%d lines", n)
		}
	})
}

// Whoever cancels or pauses what was cut off is told how many are gone, or that this is not known.
func TestWhatACutOffTurnDidIsCountedBeforeTheOperationRestsOrEnds(t *testing.T) {
	for _, wanted := range []Phase{Cancelled, Paused} {
		several(t, 1, func(t *testing.T, _ *memory.Broker, p *pile, all []*process) {
			p.set(func(p *pile) { p.match = 70 })
			killed := request(orders)
			killed.ID = NewID(time.Now())
			left := State{Phase: Running, Wanted: wanted, Matched: 100, Complete: true, StartedAt: time.Now()}
			if err := all[0].cfg.Store.Create(t.Context(), killed, left); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			if o := find(t, all[0].Runner, killed.ID); o.Phase != wanted || o.Done != 30 || o.Why != "" || len(p.turns) > 0 {
				t.Errorf("%s beside a kill: %+v, %d turns", wanted, o.State, len(p.turns))
			}
		})
		run(t, func(t *testing.T, r *Runner, p *pile) {
			p.set(func(p *pile) { p.match, p.halfway = 100, 30 })
			id := ask(t, r, request(orders), Unlimited).ID
			time.Sleep(freeTime * 3 / 2)
			if o := change(t, r, id, wanted); o.Phase != wanted || o.Done != 30 || o.Why != "" {
				t.Errorf("%s beside a cut: %+v", wanted, o.State)
			}
		})
		run(t, func(t *testing.T, r *Runner, p *pile) {
			p.set(func(p *pile) { p.match, p.halfway = 100, 30 })
			id := ask(t, r, request(orders), Unlimited).ID
			time.Sleep(freeTime * 3 / 2)
			p.set(func(p *pile) { p.err = ErrAway })
			if o := change(t, r, id, wanted); o.Phase != wanted || o.Done != 0 || o.Why != notCounted {
				t.Errorf("%s while nobody can look: %+v", wanted, o.State)
			}
		})
	}
}
