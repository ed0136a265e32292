package streams

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/task"
)

func TestEveryRecordIsHandledInOrderAndCommittedBeforeTheReaderEnds(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, 3)
	for p := range int32(3) {
		w.produce(p, 500)
	}
	j := newJournal()
	r := w.run(w.config(), j.settleAll)
	eventually(t, "1500 calls", func() bool { return j.count() == 1500 })
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	for p, at := range w.committed() {
		if at != 500 {
			t.Errorf("partition %d is committed at %d", p, at)
		}
		for i, o := range j.of(p) {
			if o != int64(i) {
				t.Fatalf("partition %d: call %d is of offset %d", p, i, o)
			}
		}
	}
}

func TestNilAndEmptyKeysAndValuesAndRepeatedHeadersArriveAsTheyWere(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, 1)
	headers := []kgo.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "a", Value: nil}, {Key: "", Value: []byte{}}, {Key: "a", Value: []byte{0xff, 0}}}
	at := time.UnixMilli(1700000000123)
	w.send(
		&kgo.Record{Key: nil, Value: nil, Timestamp: at},
		&kgo.Record{Key: []byte{}, Value: []byte{}, Timestamp: at},
		&kgo.Record{Key: []byte("k"), Value: []byte("v"), Headers: headers, Timestamp: at},
	)
	got := make(chan *stepwell.Message, 3)
	w.run(w.config(), func(_ context.Context, m *stepwell.Message, _ task.Ticket) task.Outcome {
		got <- m
		return task.Settled
	})
	empty, blank, full := <-got, <-got, <-got
	if empty.Key != nil || empty.Value != nil || empty.Headers != nil {
		t.Errorf("nil became %#v %#v %#v", empty.Key, empty.Value, empty.Headers)
	}
	if blank.Key == nil || blank.Value == nil {
		t.Errorf("empty became nil: %#v %#v", blank.Key, blank.Value)
	}
	if len(full.Headers) != 4 {
		t.Fatalf("headers: %v", full.Headers)
	}
	for i, h := range headers {
		if full.Headers[i].Key != h.Key || !bytes.Equal(full.Headers[i].Value, h.Value) || (full.Headers[i].Value == nil) != (h.Value == nil) {
			t.Errorf("header %d: %#v, sent %#v", i, full.Headers[i], h)
		}
	}
	if want := w.topic + ":0:2"; full.ID != want || full.Stream != "orders" || full.Attempt != 1 || !full.Time.Equal(at) || full.Origin != (stepwell.Origin{Topic: w.topic, Offset: 2}) {
		t.Errorf("message %+v, want id %s", full, want)
	}
}

func TestAPendingMessageHoldsTheCommitBackUntilItsTicketIsSettled(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, 1)
	w.produce(0, 10)
	tickets := make(chan task.Ticket, 1)
	j := newJournal()
	r := w.run(w.config(), func(_ context.Context, m *stepwell.Message, tk task.Ticket) task.Outcome {
		defer j.note(m)
		if m.Origin.Offset == 4 {
			tickets <- tk
			return task.Pending
		}
		return task.Settled
	})
	eventually(t, "the prefix is committed", func() bool { return j.count() == 10 && w.committed()[0] == 4 })
	if s := r.Status(); s.InFlight != 1 || s.Lag != 6 {
		t.Errorf("%d in flight and a lag of %d, want the pending one, which holds five back", s.InFlight, s.Lag)
	}
	tk := <-tickets
	tk.Settle()
	tk.Settle()
	eventually(t, "all is committed", func() bool { return w.committed()[0] == 10 })
	if s := r.Status(); s.InFlight != 0 || s.InFlightBytes != 0 || s.Lag != 0 {
		t.Errorf("status %+v", s)
	}
}

func TestATicketMaySettleBeforeTheHandleReturns(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, 1)
	w.produce(0, 100)
	r := w.run(w.config(), func(_ context.Context, _ *stepwell.Message, tk task.Ticket) task.Outcome {
		tk.Settle()
		return task.Pending
	})
	eventually(t, "all is committed", func() bool { return w.committed()[0] == 100 })
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
}

func TestAnAbandonedMessageIsNeverCommittedAndRunsAgain(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, 1)
	w.produce(0, 10)
	reached := make(chan struct{})
	r := w.run(w.config(), func(_ context.Context, m *stepwell.Message, _ task.Ticket) task.Outcome {
		if m.Origin.Offset == 3 {
			close(reached)
			return task.Abandoned
		}
		return task.Settled
	})
	<-reached
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	if at := w.committed()[0]; at != 3 {
		t.Fatalf("committed at %d", at)
	}
	j := newJournal()
	w.run(w.config(), j.settleAll)
	eventually(t, "the rest runs", func() bool { return j.count() == 7 })
	if first := j.of(0)[0]; first != 3 {
		t.Fatalf("begins at %d", first)
	}
}

func TestAFullWindowStopsFetchingButNotTheGroup(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, 2, kfake.GroupMinSessionTimeout(100*time.Millisecond))
	w.produce(0, 100)
	w.produce(1, 100)
	cfg := w.config()
	cfg.Window.Messages = 20
	cfg.Group.SessionTimeout, cfg.Group.HeartbeatInterval = time.Second, 200*time.Millisecond
	tickets := make(chan task.Ticket, 200)
	r := w.run(cfg, func(_ context.Context, _ *stepwell.Message, tk task.Ticket) task.Outcome {
		tickets <- tk
		return task.Pending
	})
	eventually(t, "the window is full", func() bool { return len(tickets) == 20 })
	still := time.After(2500 * time.Millisecond) // more than two sessions
	for waiting := true; waiting; {
		select {
		case <-still:
			waiting = false
		case <-time.After(100 * time.Millisecond):
			if n := r.Status().InFlight; n > 20 {
				t.Fatalf("%d in flight", n)
			}
		}
	}
	if s := r.Status(); !s.Joined || s.Partitions != 2 || len(tickets) != 20 {
		t.Fatalf("status %+v, %d handed out", s, len(tickets))
	}
	go func() {
		for tk := range tickets {
			tk.Settle()
		}
	}()
	defer close(tickets)
	eventually(t, "all is committed", func() bool { c := w.committed(); return c[0] == 100 && c[1] == 100 })
	_ = r.end()
}

func TestTheWindowCountsBytesToo(t *testing.T) {
	t.Parallel()
	const size, window, few, many = 10_000, 100_000, 20, 200
	w := fakeWorld(t, 1)
	cfg := w.config()
	cfg.Window.Bytes = window
	j, held := newJournal(), make(chan task.Ticket, many)
	r := w.run(cfg, func(_ context.Context, m *stepwell.Message, tk task.Ticket) task.Outcome {
		j.note(m)
		if m.Origin.Offset < few {
			return task.Settled
		}
		held <- tk // what one fetch brought is still in flight at the next
		return task.Pending
	})
	records := func(n int) (all []*kgo.Record) {
		for range n {
			all = append(all, &kgo.Record{Value: make([]byte, size)})
		}
		return all
	}
	for n := range few { // how large records are is learnt
		w.send(records(1)...)
		eventually(t, "it is handled", func() bool { return j.count() == n+1 })
	}
	w.send(records(many)...)
	eventually(t, "the window is full", func() bool { return r.Status().InFlightBytes >= window })
	<-time.After(time.Second) // for fetches that should not be
	if n := r.Status().InFlightBytes; n > window+2*size || int64(len(held))*size > n {
		t.Fatalf("%d bytes are in flight, with a window of %d, and %d calls are held", n, window, len(held))
	}
	for range many {
		(<-held).Settle()
		if n := r.Status().InFlightBytes; n > window+2*size {
			t.Fatalf("%d bytes were in flight, with a window of %d", n, window)
		}
	}
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
}

func TestPauseHandlesNothingAndCausesNoRebalance(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, 1)
	w.produce(0, 5)
	j := newJournal()
	r := w.run(w.config(), j.settleAll)
	eventually(t, "five", func() bool { return j.count() == 5 })
	r.Pause()
	r.Pause()
	_, generation := r.clients.member().GroupMetadata()
	w.produce(0, 5)
	<-time.After(time.Second)
	if j.count() != 5 || !r.Status().Paused {
		t.Fatalf("%d calls while paused", j.count())
	}
	r.Resume()
	eventually(t, "ten", func() bool { return j.count() == 10 })
	if _, g := r.clients.member().GroupMetadata(); g != generation {
		t.Fatalf("generation %d became %d", generation, g)
	}
}

func TestAPausedReaderStops(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, 1)
	w.produce(0, 1000)
	var r *running
	ready := make(chan struct{})
	j := newJournal()
	r = w.run(w.config(), func(_ context.Context, m *stepwell.Message, _ task.Ticket) task.Outcome {
		<-ready
		j.note(m)
		r.Pause()
		return task.Settled
	})
	close(ready)
	eventually(t, "one call", func() bool { return j.count() == 1 })
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	if at := w.committed()[0]; at != 1 {
		t.Fatalf("committed at %d", at)
	}
}

func TestAStopWaitsForTheRunningHandlerAndForWhatIsPending(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, 1)
	w.produce(0, 10)
	inside, release := make(chan struct{}), make(chan struct{})
	tickets := make(chan task.Ticket, 1)
	r := w.run(w.config(), func(_ context.Context, m *stepwell.Message, tk task.Ticket) task.Outcome {
		if m.Origin.Offset == 0 {
			tickets <- tk
			return task.Pending
		}
		close(inside)
		<-release
		return task.Settled
	})
	<-inside
	r.stop()
	eventually(t, "the stop is under way", func() bool { return r.parts.all()[0].roster.IsHalted() })
	close(release)
	select {
	case <-r.done:
		t.Fatal("the reader ended before its pending message was settled")
	case <-time.After(500 * time.Millisecond):
	}
	(<-tickets).Settle()
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	if at := w.committed()[0]; at != 2 {
		t.Fatalf("committed at %d: want the settled message and the one that ran", at)
	}
}

func TestTheEndOfWorkCancelsHandlersWithItsCauseAndEndsSoon(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, 1)
	w.produce(0, 10)
	budget := errors.New("the budget is used up")
	inside, cause := make(chan struct{}), make(chan error, 1)
	r := w.run(w.config(), func(ctx context.Context, m *stepwell.Message, _ task.Ticket) task.Outcome {
		if m.Origin.Offset < 2 {
			return task.Settled
		}
		close(inside)
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return task.Abandoned
	})
	<-inside
	began := time.Now()
	r.kill(budget)
	<-r.done
	if r.err != nil || time.Since(began) > 4*time.Second {
		t.Fatalf("ended with %v after %v", r.err, time.Since(began))
	}
	if err := <-cause; !errors.Is(err, budget) {
		t.Fatalf("cause %v", err)
	}
	if at := w.committed()[0]; at != 2 {
		t.Fatalf("committed at %d: what was settled is to be committed, the cancelled one not", at)
	}
}

func TestRecordsOlderThanMaxAgeAreSkippedAndCounted(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, 1)
	none := time.UnixMilli(-1) // of a producer that gives no time: it has no age
	w.send(&kgo.Record{Timestamp: time.Now().Add(-time.Hour)}, &kgo.Record{Timestamp: time.Now().Add(-time.Hour)}, &kgo.Record{Timestamp: time.Now()}, &kgo.Record{Timestamp: none})
	cfg, c, j := w.config(), &counter{}, newJournal()
	cfg.MaxAge, cfg.Telemetry = time.Minute, c
	w.run(cfg, j.settleAll)
	eventually(t, "all is committed", func() bool { return w.committed()[0] == 4 })
	if j.count() != 2 || c.expired.Load() != 2 || c.consumed.Load() != 4 {
		t.Fatalf("%d calls, %d expired, %d read", j.count(), c.expired.Load(), c.consumed.Load())
	}
}

func TestAConfigurationThatCannotWorkIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	handle := newJournal().settleAll
	for name, cfg := range map[string]Config{
		"no topics":                           {Stream: "s", Group: Group{ID: "g"}},
		"topics and a pattern":                {Stream: "s", Group: Group{ID: "g"}, Topics: []string{"t"}, Pattern: "t.*"},
		"a pattern that is none":              {Stream: "s", Group: Group{ID: "g"}, Pattern: "("},
		"a start that is none":                {Stream: "s", Group: Group{ID: "g"}, Topics: []string{"t"}, Start: "newest"},
		"an unknown protocol":                 {Stream: "s", Group: Group{ID: "g", Protocol: "eager"}, Topics: []string{"t"}},
		"a revoke longer than the rebalance":  {Stream: "s", Group: Group{ID: "g", RevokeTimeout: time.Hour}, Topics: []string{"t"}},
		"a heartbeat longer than the session": {Stream: "s", Group: Group{ID: "g", SessionTimeout: time.Second, HeartbeatInterval: time.Minute}, Topics: []string{"t"}},
		"no group":                            {Stream: "s", Topics: []string{"t"}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := New(cfg, handle); err == nil {
				t.Fatal("accepted")
			} else {
				t.Log(err)
			}
		})
	}
	if _, err := New(Config{Stream: "s", Group: Group{ID: "g"}, Topics: []string{"t"}}, nil); err == nil {
		t.Fatal("accepted without a handle")
	}
}
