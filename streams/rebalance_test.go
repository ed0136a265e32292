package streams

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/ledger"
	"github.com/stepwell/stepwell/internal/task"
)

func TestPartitionsMoveToANewMemberWithoutARepeatWhenHandlersFinish(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"classic", "consumer"} {
		t.Run(protocol, func(t *testing.T) {
			w := realWorld(t, 4)
			l := newAudit()
			defer l.watch(t, w)()
			handle := func(_ context.Context, m *stepwell.Message, _ task.Ticket) task.Outcome {
				l.call(m)
				time.Sleep(time.Millisecond) // a handler that works
				l.settle(m)
				return task.Settled
			}
			cfg := w.config()
			cfg.Group.Protocol, cfg.Group.HeartbeatInterval = protocol, 500*time.Millisecond
			first := w.run(cfg, handle)
			for p := range int32(4) {
				w.produce(p, 2000)
			}
			eventually(t, "the first works", func() bool { return l.count() > 100 })
			second := w.run(cfg, handle)
			eventually(t, "both have two", func() bool { return first.Status().Partitions == 2 && second.Status().Partitions == 2 })
			if err := first.end(); err != nil {
				t.Error(err)
			}
			eventually(t, "the second has all", func() bool { return second.Status().Partitions == 4 })
			eventually(t, "all is settled", func() bool { return l.count() == 8000 })
			if err := second.end(); err != nil {
				t.Error(err)
			}
			if l.repeats > 0 {
				t.Errorf("%d repeats", l.repeats)
			}
		})
	}
}

func TestAGroupMovesToTheOtherProtocolMemberByMemberWithoutARepeat(t *testing.T) {
	t.Parallel()
	for from, to := range map[string]string{"classic": "consumer", "consumer": "classic"} {
		t.Run(from+" to "+to, func(t *testing.T) {
			t.Parallel()
			w := realWorld(t, 4)
			l := newAudit()
			defer l.watch(t, w)()
			handle := func(_ context.Context, m *stepwell.Message, _ task.Ticket) task.Outcome {
				l.call(m)
				time.Sleep(time.Millisecond) // a handler that works, through all the moves
				l.settle(m)
				return task.Settled
			}
			member := func(protocol string) *running {
				cfg := w.config()
				cfg.Group.Protocol, cfg.Group.HeartbeatInterval = protocol, 500*time.Millisecond
				return w.run(cfg, handle)
			}
			share := func(members ...*running) {
				t.Helper()
				want := 4 / len(members)
				eventually(t, "each has its part", func() bool {
					return !slices.ContainsFunc(members, func(m *running) bool { return m.Status().Partitions != want })
				})
			}
			leave := func(m *running) {
				t.Helper()
				if err := m.end(); err != nil {
					t.Error(err)
				}
			}
			const n = 5000
			for p := range int32(4) {
				w.produce(p, n)
			}
			first, second := member(from), member(from)
			share(first, second)
			leave(first)
			third := member(to)
			share(second, third)
			leave(second)
			fourth := member(to)
			share(third, fourth)
			leave(third)
			eventually(t, "all is settled", func() bool { return l.count() == 4*n })
			leave(fourth)
			for p, at := range w.committed() {
				if at != n {
					t.Errorf("partition %d is committed at %d", p, at)
				}
			}
			if l.repeats > 0 {
				t.Errorf("%d repeats", l.repeats)
			}
		})
	}
}

func TestAMemberThatDiesIsReplacedWithinItsSessionAndNothingIsSkipped(t *testing.T) {
	t.Parallel()
	w := realWorld(t, 2)
	l := newAudit()
	defer l.watch(t, w)()
	var dead atomic.Bool
	var mu sync.Mutex
	var conns []net.Conn
	cfg := w.config()
	cfg.Group.SessionTimeout, cfg.Group.HeartbeatInterval = 6*time.Second, time.Second
	mortal := cfg
	mortal.Kafka.Options = append(mortal.Kafka.Options, kgo.Dialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
		if dead.Load() {
			return nil, errors.New("dead")
		}
		c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		mu.Lock()
		defer mu.Unlock()
		conns = append(conns, c)
		return c, err
	}))
	victim := w.run(mortal, func(ctx context.Context, m *stepwell.Message, _ task.Ticket) task.Outcome {
		l.call(m)
		if m.Origin.Offset == 50 {
			<-ctx.Done()
			return task.Abandoned
		}
		l.settle(m)
		return task.Settled
	})
	w.produce(0, 100)
	w.produce(1, 100)
	eventually(t, "the victim has come half way", func() bool { c := w.committed(); return c[0] == 50 && c[1] == 50 })
	dead.Store(true)
	mu.Lock()
	for _, c := range conns {
		_ = c.Close()
	}
	mu.Unlock()
	began := time.Now()
	heir := w.run(cfg, func(_ context.Context, m *stepwell.Message, _ task.Ticket) task.Outcome {
		l.call(m)
		l.settle(m)
		return task.Settled
	})
	within(t, 15*time.Second, "the heir has done the rest", func() bool { return l.count() == 200 })
	t.Log("taken over after", time.Since(began))
	if err := heir.end(); err != nil {
		t.Error(err)
	}
	if s := victim.Status(); s.Err == "" {
		t.Error("the cut-off member says that all is well")
	}
	victim.kill(nil)
	<-victim.done
}

func TestARevokeCancelsASlowHandlerWithItsCauseAndTheNextOwnerRunsItsMessage(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, 2)
	w.produce(0, 3)
	w.produce(1, 3)
	cfg := w.config()
	cfg.Group.RevokeTimeout, cfg.Group.HeartbeatInterval = 500*time.Millisecond, 200*time.Millisecond
	causes := make(chan error, 2)
	var published atomic.Value
	first := w.run(cfg, func(ctx context.Context, m *stepwell.Message, tk task.Ticket) task.Outcome {
		if m.Origin.Offset != 1 {
			return task.Settled
		}
		<-ctx.Done()
		causes <- context.Cause(ctx)
		published.Store(tk.Context())
		return task.Abandoned
	})
	eventually(t, "the first is stuck in both", func() bool { c := w.committed(); return c[0] == 1 && c[1] == 1 })
	j := newJournal()
	w.run(cfg, j.settleAll)
	if err := <-causes; !errors.Is(err, ErrRevoked) {
		t.Fatalf("cause %v", err)
	}
	eventually(t, "the second has run what the first gave up", func() bool { return j.count() == 2 })
	eventually(t, "nothing of the lost partition may be published", func() bool {
		return errors.Is(context.Cause(published.Load().(context.Context)), ErrRevoked)
	})
	if s := first.Status(); s.Partitions != 1 {
		t.Fatalf("status %+v", s)
	}
}

// lone is a reader with a partition, without a cluster's help: its callbacks are called by the
// test.
func lone(t *testing.T, handle Handle) (*Reader, topicPartition) { return loneOf(t, 0, handle) }

// loneOf is lone with room for so many calls at once; 0: the default.
func loneOf(t *testing.T, concurrency int, handle Handle) (*Reader, topicPartition) {
	t.Helper()
	r, err := New(Config{Stream: "orders", Group: Group{ID: "g"}, Topics: []string{"t"}, Calls: Calls{Order: OrderPartition, Concurrency: concurrency}}, handle)
	if err != nil {
		t.Fatal(err)
	}
	var end context.CancelFunc
	r.life, end = context.WithCancel(context.Background())
	r.clients.all = []*fetcher{{client: new(kgo.Client), member: true}}
	working, dismiss := context.WithCancel(r.life)
	r.parts.workers.Go(func() { r.crew.Run(working) })
	t.Cleanup(func() {
		r.rebalances.drop(r.parts.all(), ErrShutdown)
		end()
		dismiss()
		r.parts.workers.Wait()
	})
	return r, topicPartition{"t", 0}
}

// lonely is a client that reaches nobody.
func lonely(t *testing.T) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers("127.0.0.1:1"), kgo.RequestRetries(0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// fetched hands the reader what its fetcher polled, records or an error.
func (r *Reader) fetched(tp topicPartition, f *kgo.FetchPartition, err error) polled {
	f.Partition, f.Err = tp.partition, err
	return r.intake.distribute(r.clients.all[0], kgo.Fetches{{Topics: []kgo.FetchTopic{{Topic: tp.topic, TopicID: [16]byte{1}, Partitions: []kgo.FetchPartition{*f}}}}})
}

// wasCut tells the reader, as the client does, that a log was cut.
func (r *Reader) wasCut(tp topicPartition, at int64) {
	r.fetched(tp, records(0, 0), &kgo.ErrDataLoss{Topic: tp.topic, ResetTo: at})
}

func records(from, to int64) *kgo.FetchPartition {
	f := &kgo.FetchPartition{HighWatermark: to, LastStableOffset: to}
	for o := from; o < to; o++ {
		f.Records = append(f.Records, &kgo.Record{Topic: "t", Offset: o, Value: []byte("0123456789")})
	}
	return f
}

func TestANewWorkerWaitsForTheOldOneOfTheSamePartition(t *testing.T) {
	t.Parallel()
	var running, most atomic.Int64
	inside, release := make(chan struct{}, 10), make(chan struct{})
	r, tp := lone(t, func(context.Context, *stepwell.Message, task.Ticket) task.Outcome {
		most.Store(max(most.Load(), running.Add(1)))
		defer running.Add(-1)
		inside <- struct{}{}
		<-release // deaf to its context
		return task.Settled
	})
	r.clients.all[0] = newFetcher(true)
	r.clients.all[0].client = lonely(t)
	ours := map[string][]int32{tp.topic: {tp.partition}}
	for range 3 {
		r.rebalances.onAssigned(t.Context(), new(kgo.Client), ours)
		r.intake.receive(tp, records(0, 2), [16]byte{1})
		if len(inside) == 0 {
			eventually(t, "the first worker works", func() bool { return len(inside) > 0 })
		}
		r.rebalances.onLost(t.Context(), nil, ours)
	}
	r.rebalances.onAssigned(t.Context(), new(kgo.Client), ours)
	r.intake.receive(tp, records(0, 2), [16]byte{1})
	<-time.After(100 * time.Millisecond) // time enough for the last worker to do what it must not
	close(release)
	eventually(t, "the last worker waits no more", func() bool { return !isBlocked(r.parts.lookup(tp)) })
	r.intake.receive(tp, records(0, 2), [16]byte{1})
	eventually(t, "the last worker is through", func() bool { r.parts.flush(); return r.load.records.Load() == 0 })
	if most.Load() != 1 {
		t.Fatalf("%d at once", most.Load())
	}
}

// The group waits for the whole revocation: were each partition given its own time, many would
// exceed the rebalance time-out, and the member would be out with nothing committed.
func TestARevocationOfManyPartitionsTakesNoLongerThanThatOfOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const many = 50
		var called atomic.Int32
		release := make(chan struct{})
		r, tp := loneOf(t, many, func(context.Context, *stepwell.Message, task.Ticket) task.Outcome {
			if called.Add(1)%2 == 0 {
				return task.Pending // never settled
			}
			<-release // deaf to its context
			return task.Settled
		})
		ours := map[string][]int32{}
		for p := range int32(many) {
			ours[tp.topic] = append(ours[tp.topic], p)
		}
		r.rebalances.onAssigned(t.Context(), new(kgo.Client), ours)
		for _, p := range ours[tp.topic] {
			r.intake.receive(topicPartition{tp.topic, p}, records(0, 1), [16]byte{})
		}
		synctest.Wait()
		if called.Load() != many {
			t.Fatalf("%d calls", called.Load())
		}
		began := time.Now()
		r.rebalances.onRevoked(t.Context(), new(kgo.Client), ours)
		if took, most := time.Since(began), r.cfg.Group.RevokeTimeout+2*mostGrace; took > most {
			t.Errorf("took %v, and may take %v", took, most)
		}
		close(release)
	})
}

func TestAPartitionThatComesBackAfterALossRepeatsWhatWasNotCommittedAndNothingElse(t *testing.T) {
	t.Parallel()
	j := newJournal()
	c := &counter{}
	r, tp := lone(t, func(_ context.Context, m *stepwell.Message, _ task.Ticket) task.Outcome {
		j.note(m)
		if m.Origin.Offset == 2 {
			return task.Pending // never settled
		}
		return task.Settled
	})
	r.cfg.Telemetry = c
	ours := map[string][]int32{tp.topic: {tp.partition}}
	var committed ledger.Checkpoint
	round := func(start, end int64, id byte, commits bool) {
		r.rebalances.onAssigned(t.Context(), new(kgo.Client), ours)
		r.parts.lookup(tp).restored(start, committed.Metadata)
		r.parts.lookup(tp).begin(ledger.At(start, 0), false)
		before := j.count() + int(c.duplicates.Load())
		r.intake.receive(tp, records(start, end), [16]byte{id})
		eventually(t, "all is handed out", func() bool { return j.count()+int(c.duplicates.Load()) == before+int(end-start) })
		eventually(t, "all is flushed", func() bool { r.parts.flush(); return r.load.records.Load() == 1 && r.load.span.Load() == end-2 })
		if commits {
			committed, _ = r.parts.lookup(tp).dirty(ledger.MetadataLimit)
			r.parts.lookup(tp).stored(committed)
		}
		r.rebalances.onLost(t.Context(), nil, ours)
	}
	round(0, 8, 1, true)
	round(2, 10, 1, false) // of a connection that is gone: no commit leaves
	if got := j.of(0); !slices.Equal(got[8:], []int64{2, 8, 9}) || c.duplicates.Load() != 5 {
		t.Fatalf("calls %v, %d duplicates", got, c.duplicates.Load())
	}
	round(2, 10, 1, true)
	if got := j.of(0); !slices.Equal(got[11:], []int64{2, 8, 9}) {
		t.Fatalf("calls %v, want those again that were not committed", got)
	}
	round(1, 10, 1, false) // an operator went back: all is wanted again
	if got := j.of(0); len(got) != 23 {
		t.Fatalf("calls after a rewind %v", got)
	}
	round(2, 10, 2, false) // another topic of the same name
	if got := j.of(0); len(got) != 31 {
		t.Fatalf("calls of a new topic %v", got)
	}
}

func TestRecordsOfAPartitionThatIsNotOursAreDropped(t *testing.T) {
	t.Parallel()
	j := newJournal()
	r, tp := lone(t, j.settleAll)
	r.intake.receive(tp, records(0, 5), [16]byte{})
	if r.load.records.Load() != 0 || j.count() != 0 {
		t.Fatal("they were taken")
	}
}

func TestALostPartitionFreesItsPartOfTheWindowOnceAndItsTicketsChangeNothing(t *testing.T) {
	t.Parallel()
	tickets := make(chan task.Ticket, 10)
	r, tp := lone(t, func(_ context.Context, _ *stepwell.Message, tk task.Ticket) task.Outcome {
		tickets <- tk
		return task.Pending
	})
	ours := map[string][]int32{tp.topic: {tp.partition}}
	r.rebalances.onAssigned(t.Context(), new(kgo.Client), ours)
	r.intake.receive(tp, records(0, 10), [16]byte{})
	eventually(t, "all is handed out", func() bool { return len(tickets) == 10 })
	(<-tickets).Settle()
	r.rebalances.onLost(t.Context(), nil, ours)
	for len(tickets) > 0 {
		tk := <-tickets
		if !errors.Is(context.Cause(tk.Context()), ErrLost) {
			t.Fatalf("the ticket's context ended with %v", context.Cause(tk.Context()))
		}
		tk.Settle()
	}
	if n, b, span := r.load.records.Load(), r.load.bytes.Load(), r.load.span.Load(); n != 0 || b != 0 || span != 0 {
		t.Fatalf("%d records and %d bytes in flight, a span of %d", n, b, span)
	}
}

func TestAMemberThatIsGivenNoPartitionHasJoinedAllTheSame(t *testing.T) {
	t.Parallel()
	r, _ := lone(t, newJournal().settleAll)
	if r.Status().Joined {
		t.Fatal("joined before the group has said anything")
	}
	r.rebalances.onAssigned(t.Context(), new(kgo.Client), nil) // there are more members than partitions
	if s := r.Status(); !s.Joined || s.Partitions != 0 {
		t.Errorf("status %+v", s)
	}
	r.rebalances.onLost(t.Context(), nil, nil)
	if r.Status().Joined {
		t.Error("joined, though the group has put it out")
	}
}

func TestADrainWaitsForWhatIsPendingAsLongAsItsConfirmMayComeAndItsLimitLives(t *testing.T) {
	t.Parallel()
	const confirmed, limit = 3 * time.Second, 10 * time.Second
	for name, test := range map[string]struct {
		healthy func() bool
		after   time.Duration // until it is confirmed
		took    time.Duration
	}{
		"its confirm comes":                       {func() bool { return true }, confirmed, confirmed},
		"nobody says how confirms are":            {nil, confirmed, confirmed},
		"its confirm comes late":                  {func() bool { return true }, time.Hour, limit},
		"there is no connection to confirm it by": {func() bool { return false }, confirmed, 100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, tp := lone(t, func(_ context.Context, _ *stepwell.Message, tk task.Ticket) task.Outcome {
					time.AfterFunc(test.after, tk.Settle)
					return task.Pending
				})
				r.cfg.ConfirmsHealthy = test.healthy
				r.rebalances.onAssigned(t.Context(), new(kgo.Client), map[string][]int32{tp.topic: {tp.partition}})
				r.intake.receive(tp, records(0, 1), [16]byte{})
				synctest.Wait()
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				defer cancel()
				began := time.Now()
				r.rebalances.drain(ctx, r.parts.all(), ErrRevoked, mostGrace)
				if took := time.Since(began); took != test.took {
					t.Errorf("waited for %v, want %v", took, test.took)
				}
			})
		})
	}
}

func TestWhatASlowHandlerSettlesWhenARevokeCancelsItIsCommitted(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, 1)
	w.produce(0, 3)
	cfg := w.config()
	cfg.Group.RevokeTimeout = 100 * time.Millisecond
	runs := make(chan struct{})
	r := w.run(cfg, func(ctx context.Context, m *stepwell.Message, _ task.Ticket) task.Outcome {
		if m.Origin.Offset == 1 {
			close(runs)
			<-ctx.Done()
		}
		return task.Settled
	})
	<-runs
	r.rebalances.onRevoked(t.Context(), new(kgo.Client), map[string][]int32{w.topic: {0}})
	if at := w.committed()[0]; at != 2 {
		t.Errorf("committed at %d, want 2: the next owner calls 1 again", at)
	}
}
