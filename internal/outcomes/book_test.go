package outcomes

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell/embedded/memory"
	"github.com/stepwell/stepwell/internal/records"
)

const op = "op_1"

// of is what the book knows of op.
func of(t *testing.T, b *Book) Tally {
	t.Helper()
	known, err := b.Of(op)
	if err != nil {
		t.Fatal(err)
	}
	return known[op]
}

// processes are two books of one app, on a false clock. stop ends the first.
func processes(t *testing.T, test func(t *testing.T, one, other *Book, stop func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		broker := memory.New()
		ctx, end := context.WithCancel(t.Context())
		defer end()
		go func() { _ = broker.Run(ctx) }()
		book := func(name string) (*Book, func()) {
			store := records.New(records.Config{Broker: broker, Log: "shipping.records"})
			go func() { _ = store.Run(ctx) }()
			b := New(store, name, nil)
			own, cancel := context.WithCancel(ctx)
			ended := make(chan struct{})
			go func() { defer close(ended); _ = b.Run(own) }()
			return b, func() { cancel(); <-ended }
		}
		one, stop := book("a")
		other, stopOther := book("b")
		test(t, one, other, stop)
		stop()
		stopOther()
		end()
		synctest.Wait()
	})
}

func TestWhatOneProcessTellsAnotherKnowsASecondLater(t *testing.T) {
	processes(t, func(t *testing.T, one, other *Book, stop func()) {
		one.Tell(Event{Operation: op, Attempt: 1, Kind: Handled, Canary: "x"})
		one.Tell(Event{Operation: op, Attempt: 1, Kind: Failed})
		other.Tell(Event{Operation: op, Attempt: 1, Kind: Handled, Canary: "x"}) // once more, after a kill
		other.Tell(Event{Operation: "op_2", Attempt: 1, Kind: Died})
		time.Sleep(2 * tellEvery)
		for _, b := range []*Book{one, other} {
			if got := of(t, b); got.Handled != 2 || got.Failed != 1 || got.Died != 0 || len(got.Canary) != 1 {
				t.Errorf("%+v", got)
			}
		}
		one.Tell(Event{Operation: op, Attempt: 2, Kind: Handled})
		stop() // the last word is written
		time.Sleep(time.Millisecond)
		if got := of(t, other); got.Handled != 3 || got.Recovered != 1 {
			t.Errorf("after the end of the one who told: %+v", got)
		}
	})
}

func TestWhatWasToldIsForgottenAfterAWeek(t *testing.T) {
	processes(t, func(t *testing.T, one, other *Book, _ func()) {
		one.Tell(Event{Operation: op, Attempt: 1, Kind: Handled})
		time.Sleep(2 * tellEvery)
		if got := of(t, other); got.Handled != 1 {
			t.Fatalf("%+v", got)
		}
		time.Sleep(keepFor + time.Minute)
		if got := of(t, other); got.Handled != 0 {
			t.Errorf("%+v", got)
		}
	})
}

// hangs is a log that answers nobody before their patience ends.
type hangs struct{}

func (hangs) Change(ctx context.Context, _, _ string, _ func(records.Record) (records.Record, error)) error {
	<-ctx.Done()
	return ctx.Err()
}
func (hangs) All(string) ([]records.Record, error) { return nil, records.ErrUnknown }

func TestWhoTellsNeverWaitsWhereNothingCanBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(hangs{}, "a", nil)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan time.Time, 1)
		go func() { _ = b.Run(ctx); ended <- time.Now() }()
		began := time.Now()
		for i := range 1000 {
			b.Tell(Event{Operation: op, Attempt: 1, Kind: Handled, Canary: fmt.Sprint(i)})
			synctest.Wait() // the first is being written, for ever
		}
		known, err := b.Of(op)
		if took := time.Since(began); took > 0 || known[op].Handled != 1000 || !errors.Is(err, records.ErrUnknown) {
			t.Errorf("%+v, %v, after %s", known, err, took)
		}
		stop()
		if took := (<-ended).Sub(began); took != lastTime {
			t.Errorf("a stop takes %s", took)
		}
	})
}

type away struct{}

func (away) Change(context.Context, string, string, func(records.Record) (records.Record, error)) error {
	return errors.New("away")
}
func (away) All(string) ([]records.Record, error) { return nil, records.ErrUnknown }

func TestAProcessKnowsOfABoundedNumberOfOperationsAndAlwaysOfItsOwnMessages(t *testing.T) {
	b := New(away{}, "a", nil)
	for i := range 2 * maxPages {
		b.Tell(Event{Operation: fmt.Sprint("op_", i), Attempt: 1, Kind: Handled})
		b.Tell(Event{Operation: "op_lasting", Attempt: 1, Kind: Handled})
	}
	b.write(t.Context())
	if n := len(b.pages); n != maxPages {
		t.Errorf("%d pages", n)
	}
	got, err := b.Of("op_lasting", "op_0")
	if !errors.Is(err, records.ErrUnknown) || got["op_lasting"].Handled != 2*maxPages || got["op_0"].Handled != 0 || len(got) != 2 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestUnknownIsWhatNobodyToldOf(t *testing.T) {
	for name, c := range map[string]struct {
		events   []Event
		replayed int
		want     Outcome
	}{
		"nothing told":             {nil, 3, Outcome{Unknown: 3}},
		"failed, and waits":        {[]Event{{Attempt: 1, Kind: Failed}}, 1, Outcome{Failed: 1}},
		"failed, then handled":     {[]Event{{Attempt: 1, Kind: Failed}, {Attempt: 2, Kind: Handled}}, 2, Outcome{Failed: 1, Handled: 1, Unknown: 1}},
		"died at its first try":    {[]Event{{Attempt: 1, Kind: Died}}, 1, Outcome{Failed: 1, Died: 1}},
		"died at its third":        {[]Event{{Attempt: 1, Kind: Failed}, {Attempt: 2, Kind: Failed}, {Attempt: 3, Kind: Died}}, 2, Outcome{Failed: 1, Died: 1, Unknown: 1}},
		"told more than is known":  {[]Event{{Attempt: 1, Kind: Handled}, {Attempt: 1, Kind: Handled}}, 1, Outcome{Handled: 2}},
		"first try by older ones":  {[]Event{{Attempt: 2, Kind: Handled}}, 1, Outcome{Handled: 1}},
		"one of each, and unknown": {[]Event{{Attempt: 1, Kind: Handled}, {Attempt: 1, Kind: Failed}, {Attempt: 1, Kind: Died}}, 5, Outcome{Handled: 1, Failed: 2, Died: 1, Unknown: 2}},
	} {
		var sum Tally
		for _, e := range c.events {
			sum.count(e)
		}
		if got := sum.Outcome(c.replayed); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
