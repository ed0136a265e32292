package operations

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell/embedded/memory"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/records"
)

// process is one of several of an app: its own records and its own runner.
type process struct {
	*Runner
	records *records.Store
	log     *strings.Builder // read it when all wait
	stop    func()
}

// background runs f until it is stopped, or the test ends.
func background(t testing.TB, run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := run(ctx); err != nil {
			t.Error(err)
		}
	})
	stop = func() { cancel(); running.Wait() }
	t.Cleanup(stop)
	return stop
}

// launch starts a process of the app.
func launch(t testing.TB, b queue.Broker, name string, sets map[Target]DeadSet) *process {
	t.Helper()
	kept := &strings.Builder{}
	log := slog.New(slog.NewTextHandler(io.MultiWriter(t.Output(), kept), nil)).With("process", name)
	store := records.New(records.Config{Broker: b, Log: "app.records", Logger: log, Large: Large()})
	background(t, store.Run)
	if err := store.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	p := &process{records: store, log: kept, Runner: New(Config{
		Store: NewShared(store), Sets: sets, Name: name, Logger: log,
		Election: &Election{Records: store, Broker: b, Lease: "app.operations", Name: name, Logger: log},
	})}
	p.stop = background(t, p.Run)
	return p
}

// several runs the test on a false clock with so many processes that have one dead set.
func several(t *testing.T, n int, test func(t *testing.T, b *memory.Broker, p *pile, all []*process)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b, p := memory.New(), &pile{}
		background(t, b.Run)
		var all []*process
		for i := range n {
			all = append(all, launch(t, b, fmt.Sprint("process ", i), map[Target]DeadSet{orders: p}))
		}
		test(t, b, p, all)
	})
}

// onEachStore calls test with stores of each kind: on the broker in memory here.
func onEachStore(t *testing.T, test func(t *testing.T, s Store)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) { test(t, NewMemory()) })
	t.Run("records", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := memory.New()
			background(t, b.Run)
			store := records.New(records.Config{Broker: b, Log: "log", Logger: slog.New(slog.DiscardHandler), Large: Large()})
			background(t, store.Run)
			if err := store.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
			test(t, NewShared(store))
		})
	})
}

func TestAStoreKeepsARequestOnceAndEachChangeSeesTheOneBefore(t *testing.T) {
	onEachStore(t, keeps)
}

func keeps(t *testing.T, s Store) {
	asked := Request{ID: "op_a", Action: Replay, Target: orders, Select: Selection{All: true}, CreatedAt: time.Now().UTC().Round(0)}
	if _, err := s.Change(t.Context(), asked.ID, func(s State) (State, error) { return s, nil }); !errors.Is(err, ErrUnknown) {
		t.Errorf("before it is there: %v", err)
	}
	changed := s.Changed()
	if err := s.Create(t.Context(), asked, State{Phase: Queued, Rate: Rate{5, time.Second}}); err != nil {
		t.Fatal(err)
	}
	<-changed
	other := asked
	other.Note = "another"
	if err := s.Create(t.Context(), other, State{}); !errors.Is(err, ErrExists) {
		t.Errorf("a second of that id: %v", err)
	}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, err := s.Change(t.Context(), asked.ID, func(s State) (State, error) { s.Done++; return s, nil }); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	refuses := errors.New("no")
	if _, err := s.Change(t.Context(), asked.ID, func(s State) (State, error) { s.Done = 0; return s, refuses }); !errors.Is(err, refuses) {
		t.Errorf("%v", err)
	}
	o, err := s.Load(t.Context(), asked.ID)
	if err != nil || o.Done != 20 || o.Phase != Queued || o.Rate != (Rate{5, time.Second}) || o.Note != "" || !o.CreatedAt.Equal(asked.CreatedAt) || o.Foreign {
		t.Errorf("%+v, %v", o, err)
	}
	if _, err := s.Load(t.Context(), "op_b"); !errors.Is(err, ErrUnknown) {
		t.Errorf("%v", err)
	}
}

func TestTheLargestSelectionIsKeptAndALargerRequestIsRefused(t *testing.T) {
	onEachStore(t, keepsLarge)
}

func keepsLarge(t *testing.T, s Store) {
	r := Request{ID: "op_large", Action: Delete, Target: orders, CreatedAt: time.Now().UTC(), Note: strings.Repeat("n", 500)}
	for i := range MaxIDs {
		r.Select.IDs = append(r.Select.IDs, fmt.Sprintf("%0255d", i))
	}
	if err := s.Create(t.Context(), r, State{Phase: Queued}); err != nil {
		t.Fatal(err)
	}
	all, err := s.List()
	if err != nil || len(all) != 1 || len(all[0].Select.IDs) != MaxIDs || all[0].Select.IDs[999] != r.Select.IDs[999] {
		t.Errorf("%d operations, %v", len(all), err)
	}
	if _, shared := s.(*Shared); shared {
		r.ID = "op_larger"
		for i := range r.Select.IDs {
			r.Select.IDs[i] = strings.Repeat("\x00", 255)
		}
		if err := s.Create(t.Context(), r, State{Phase: Queued}); !errors.Is(err, ErrLarge) {
			t.Errorf("%v", err)
		}
	}
}

func TestWhatRecordsKeepOfOperationsIsBounded(t *testing.T) {
	several(t, 1, func(t *testing.T, _ *memory.Broker, _ *pile, all []*process) {
		s := all[0].cfg.Store
		all[0].stop() // so that nothing runs
		put := func(id string, phase Phase) error {
			now := time.Now().UTC()
			return s.Create(t.Context(), Request{ID: id, Action: Replay, Target: orders, CreatedAt: now}, State{Phase: phase, EndedAt: now})
		}
		for i := range MaxFinished + 10 {
			if err := put(fmt.Sprintf("op_over%d", i), Done); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		for i := range MaxWaiting {
			if err := put(fmt.Sprintf("op_waits%d", i), Paused); err != nil {
				t.Fatal(err)
			}
		}
		if err := put("op_more", Queued); !errors.Is(err, ErrFull) {
			t.Errorf("%v", err)
		}
		if list, err := s.List(); err != nil || len(list) != MaxWaiting+MaxFinished {
			t.Errorf("%d are kept, %v", len(list), err)
		}
		if _, err := s.Load(t.Context(), "op_over9"); !errors.Is(err, ErrUnknown) {
			t.Errorf("the oldest that are over: %v", err)
		}
		time.Sleep(maxAge)
		if list, err := s.List(); err != nil || len(list) != MaxWaiting {
			t.Errorf("after a month %d are shown, %v", len(list), err)
		}
	})
}

func TestEachProcessAnswersForAnOperationAndAnyPausesResumesAndCancelsIt(t *testing.T) {
	several(t, 3, func(t *testing.T, _ *memory.Broker, p *pile, all []*process) {
		p.set(func(p *pile) { p.match, p.takes = 1000, time.Second })
		id := ask(t, all[0].Runner, request(orders), "10/s").ID
		time.Sleep(7 * time.Second)
		for i, process := range all {
			o := find(t, process.Runner, id)
			if o.Phase != Running || o.Runner != "process 0" || o.Matched != 1000 || o.Done == 0 {
				t.Errorf("process %d: %+v", i, o)
			}
			if on := process.RunningOn(orders); on != id {
				t.Errorf("process %d: %q runs", i, on)
			}
		}
		if o := change(t, all[1].Runner, id, Paused); o.Phase != Paused {
			t.Errorf("%+v", o)
		}
		turns := len(p.turns)
		time.Sleep(time.Hour)
		if o := find(t, all[2].Runner, id); o.Phase != Paused || len(p.turns) != turns {
			t.Errorf("%+v", o)
		}
		rate := Rate{500, time.Second}
		if _, err := all[2].Change(t.Context(), id, Change{Phase: Running, Rate: &rate}); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		if o := find(t, all[1].Runner, id); o.Phase != Running || o.Runner != "process 2" || o.Resumed != 0 {
			t.Errorf("%+v", o)
		}
		if o := change(t, all[0].Runner, id, Cancelled); o.Phase != Cancelled {
			t.Errorf("%+v", o)
		}
		for _, process := range all {
			if _, err := process.Change(t.Context(), id, Change{Phase: Paused}); !errors.Is(err, ErrOver) {
				t.Errorf("%v", err)
			}
		}
	})
}

func TestWhereTheProcessThatRunsOperationsStopsAnotherGoesOnAndAPausedOneStaysSo(t *testing.T) {
	several(t, 2, func(t *testing.T, _ *memory.Broker, p *pile, all []*process) {
		p.set(func(p *pile) { p.match, p.takes = 100, 500*time.Millisecond })
		id := ask(t, all[0].Runner, request(orders, 100), "10/s").ID
		rests := ask(t, all[0].Runner, request(orders), Unlimited).ID
		change(t, all[0].Runner, rests, Paused)
		time.Sleep(5 * time.Second)
		all[0].stop()
		began := time.Now()
		for find(t, all[1].Runner, id).Runner != "process 1" {
			time.Sleep(time.Millisecond)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("taken over after %s", took)
		}
		time.Sleep(time.Minute)
		if o := find(t, all[1].Runner, id); o.Phase != Done || o.Done != 100 || o.Matched != 100 || o.Resumed != 1 {
			t.Errorf("%+v", o)
		}
		synctest.Wait()
		if log := all[1].log.String(); strings.Count(log, "goes on here") != 1 || !strings.Contains(log, `before="process 0"`) || strings.Contains(all[0].log.String(), "goes on here") {
			t.Errorf("that it goes on elsewhere is not said once: %s", log)
		}
		if o := find(t, all[1].Runner, rests); o.Phase != Paused {
			t.Errorf("%+v", o)
		}
	})
}

// The lease of the first ends and the second has it, while the first is in a turn that takes long.
func TestWhoLeadsNoMoreEndsItsTurnAndItsStateOverwritesNothing(t *testing.T) {
	several(t, 2, func(t *testing.T, b *memory.Broker, p *pile, all []*process) {
		p.set(func(p *pile) { p.match, p.takes = 50, time.Hour })
		id := ask(t, all[0].Runner, request(orders, 50), "10/m").ID
		time.Sleep(time.Second)
		p.set(func(p *pile) { p.takes = 0 })
		b.SetUp(false) // both are cut off
		time.Sleep(10 * time.Second)
		b.SetUp(true)
		time.Sleep(time.Minute)
		runs := find(t, all[0].Runner, id)
		if runs.Phase != Running || runs.Done == 0 || runs.Resumed != 1 || runs.Term != 2 {
			t.Errorf("it does not go on: %+v", runs)
		}
		old := worker{r: all[0].Runner, l: &live{request: runs.Request, term: 1}}
		for _, late := range []State{{Phase: Running, Done: 50}, {Phase: Cancelled}} {
			if _, err := old.save(t.Context(), late); !errors.Is(err, errLost) {
				t.Errorf("a state of an earlier term, %s: %v", late.Phase, err)
			}
		}
		time.Sleep(10 * time.Minute)
		for _, process := range all {
			if o := find(t, process.Runner, id); o.Phase != Done || o.Done != 50 || o.Resumed != 1 || o.Term != 2 {
				t.Errorf("%+v", o)
			}
		}
	})
}

// What is asked for with a key is one operation, whichever processes are asked, also at once.
func TestAKeyIsOneOperationInAllProcesses(t *testing.T) {
	several(t, 3, func(t *testing.T, _ *memory.Broker, p *pile, all []*process) {
		p.set(func(p *pile) { p.match = 10 })
		asked := request(orders)
		asked.Wish = "all"
		var made sync.Map
		var askers sync.WaitGroup
		for i := range 12 {
			askers.Go(func() {
				o, known, err := all[i%3].Ask(t.Context(), asked, Rate{}, "key")
				if err != nil {
					t.Error(err)
				}
				if !known {
					made.Store(i, o.ID)
				}
			})
		}
		askers.Wait()
		n := 0
		made.Range(func(any, any) bool { n++; return true })
		if list, err := all[1].List(t.Context()); n != 1 || err != nil || len(list) != 1 {
			t.Errorf("made %d times, %d are there, %v", n, len(list), err)
		}
		asked.Wish = "less"
		if _, _, err := all[2].Ask(t.Context(), asked, Rate{}, "key"); !errors.Is(err, ErrOtherWish) {
			t.Errorf("%v", err)
		}
	})
}

func TestAnOperationOfANewerReleaseWaitsAndSaysSo(t *testing.T) {
	several(t, 1, func(t *testing.T, _ *memory.Broker, p *pile, all []*process) {
		p.set(func(p *pile) { p.match = 10 })
		err := all[0].records.Change(t.Context(), kind, "op_new", func(r records.Record) (records.Record, error) {
			r.Value = []byte(`{"request":{"id":"op_new","action":"replay","stream":"orders","select":{"all":true},"only":"odd"},"state":{"state":"queued"}}`)
			return r, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if o := find(t, all[0].Runner, "op_new"); o.Phase != Queued || o.Why == "" || len(p.turns) > 0 {
			t.Errorf("%+v", o)
		}
	})
}

// put writes a record as another release might.
func put(t *testing.T, p *process, name, value string) {
	t.Helper()
	err := p.records.Change(t.Context(), kind, name, func(r records.Record) (records.Record, error) {
		r.Value = []byte(value)
		return r, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestARecordThatCannotBeReadStopsNoOtherOperation(t *testing.T) {
	several(t, 1, func(t *testing.T, _ *memory.Broker, p *pile, all []*process) {
		p.set(func(p *pile) { p.match = 10 })
		put(t, all[0], "op_torn", `{"request":7}`)
		put(t, all[0], "op_torn.state", `{"of":"2026-01-01T00:00:00Z","state":{"state":"running"}}`)
		// Only a newer release knows how far this one is.
		put(t, all[0], "op_ahead", `{"request":{"id":"op_ahead","action":"replay","stream":"orders","select":{"all":true}},"state":{"state":"queued"}}`)
		put(t, all[0], "op_ahead.state", `{"state":{"state":"running","rate":"10/h"}}`)
		id := ask(t, all[0].Runner, request(orders), Unlimited).ID
		time.Sleep(time.Hour)
		if o := find(t, all[0].Runner, id); o.Phase != Done {
			t.Errorf("%+v", o)
		}
		if o := find(t, all[0].Runner, "op_ahead"); o.Phase != Queued || o.Why == "" {
			t.Errorf("%+v", o)
		}
		if _, err := all[0].Change(t.Context(), "op_ahead", Change{Phase: Running}); !errors.Is(err, ErrForeign) {
			t.Errorf("%v", err)
		}
		if o := change(t, all[0].Runner, "op_ahead", Cancelled); o.Phase != Cancelled {
			t.Errorf("%+v", o)
		}
		if list, err := all[0].List(t.Context()); err != nil || len(list) != 2 {
			t.Errorf("%d operations, %v", len(list), err)
		}
		if _, err := all[0].Find(t.Context(), "op_torn"); err == nil || errors.Is(err, ErrUnknown) {
			t.Errorf("%v", err)
		}
	})
}

// An operation that is asked for again with its key, as another makes room, has its state under the
// same name as the one that was forgotten.
func TestWhatIsForgottenIsOnlyWhatWasSeen(t *testing.T) {
	several(t, 1, func(t *testing.T, _ *memory.Broker, _ *pile, all []*process) {
		s := all[0].cfg.Store.(*Shared) //nolint:forcetypeassert // it is one
		put(t, all[0], "op_key.state", `{"of":"2026-01-01T00:00:00Z","state":{"state":"done"}}`)
		kept, err := s.all()
		if err != nil || len(kept.left()) != 1 {
			t.Fatalf("%v, %v", kept.left(), err)
		}
		put(t, all[0], "op_key.state", `{"of":"2026-02-02T00:00:00Z","state":{"state":"running"}}`)
		if err := s.remove(t.Context(), "op_key.state", kept["op_key.state"].raw); err != nil {
			t.Error(err)
		}
		if _, there, err := all[0].records.Get(kind, "op_key.state"); !there || err != nil {
			t.Errorf("the state of another was removed, %v", err)
		}
		if kept, err = s.all(); err != nil {
			t.Fatal(err)
		}
		if err := s.remove(t.Context(), "op_key.state", kept["op_key.state"].raw); err != nil {
			t.Error(err)
		}
		if _, there, _ := all[0].records.Get(kind, "op_key.state"); there {
			t.Error("what nobody needs stays")
		}
	})
}

func TestWithoutRecordsNothingIsTakenAndTheReasonIsToldAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New()
		background(t, b.Run)
		if err := b.Declare(t.Context(), []queue.Spec{{Name: "log", Kind: queue.DeadSet}}); err != nil {
			t.Fatal(err)
		}
		store := records.New(records.Config{Broker: b, Log: "log", Logger: slog.New(slog.DiscardHandler)})
		background(t, store.Run)
		synctest.Wait()
		r := New(Config{Store: NewShared(store), Sets: map[Target]DeadSet{orders: &pile{}}})
		began := time.Now()
		if _, _, err := r.Ask(t.Context(), Request{Action: Replay, Target: orders}, Rate{}, ""); !errors.Is(err, ErrAway) || !strings.Contains(err.Error(), "other arguments") || time.Since(began) > 0 {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		if _, err := r.List(t.Context()); !errors.Is(err, ErrAway) {
			t.Errorf("%v", err)
		}
		if on := r.RunningOn(orders); on != "" { // counts go on
			t.Errorf("%q", on)
		}
	})
}

func TestALookAfterATurnThatWasCutOffSaysWhatIsDone(t *testing.T) {
	for _, test := range []struct {
		what                string
		state               State
		match, unseen       int
		wantDone, wantBegun int
	}{
		{"all was seen before and is now", State{Matched: 100, Done: 20, Begun: 60, Complete: true}, 55, 0, 45, 45},
		{"nothing more is gone", State{Matched: 100, Done: 20, Begun: 60, Complete: true}, 80, 0, 20, 20},
		{"others removed some, too", State{Matched: 100, Done: 20, Begun: 60, Complete: true}, 10, 0, 60, 60},
		{"others came", State{Matched: 100, Done: 20, Begun: 60, Complete: true}, 90, 0, 20, 20},
		{"not all is seen now", State{Matched: 100, Done: 20, Begun: 60, Complete: true}, 55, 7, 20, 60},
		{"not all was seen before", State{Matched: 100, Done: 20, Begun: 60}, 55, 0, 20, 60},
		{"its last turn was not announced", State{Matched: 100, Done: 20, Begun: 20, Complete: true}, 55, 0, 20, 20},
		{"nothing was expected", State{Matched: 100, Done: 20, Complete: true}, 55, 0, 45, 0},
	} {
		s := test.state
		s.find(&Sample{Matched: test.match, Unsorted: test.unseen}, true)
		if s.Done != test.wantDone || s.Begun != test.wantBegun {
			t.Errorf("%s: %d done, %d begun", test.what, s.Done, s.Begun)
		}
	}
}
