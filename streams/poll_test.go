package streams

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/ledger"
	"github.com/stepwell/stepwell/internal/task"
)

func TestWhoGathersIsNotToWaitForMoreOnceTheWindowIsFull(t *testing.T) {
	t.Parallel()
	r, _ := lone(t, newJournal().settleAll)
	flushed := 0
	r.cfg.Calls.Flush = func() { flushed++ }
	if r.intake.makeRoom(1); flushed > 0 {
		t.Error("told so while there is room")
	}
	r.load.add(r.cfg.Window.Messages, 0)
	if r.intake.makeRoom(1); flushed != 1 {
		t.Errorf("told so %d times", flushed)
	}
}

func TestWhatAStretchHasDoneSoFarIsCommittedAndNotReadAgainAfterACut(t *testing.T) {
	for name, look := range map[string]func(p *partition) int64{
		"a commit": func(p *partition) int64 { c, _ := p.dirty(4096); return c.At.Offset },
		"a cut":    func(p *partition) int64 { return p.goesOnAt(ledger.At(8, 0)).Offset },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var p *partition
				at := int64(-1)
				r, tp := lone(t, func(_ context.Context, m *stepwell.Message, _ task.Ticket) task.Outcome {
					if m.Origin.Offset == 5 {
						at = look(p)
					}
					return task.Settled
				})
				r.rebalances.onAssigned(t.Context(), new(kgo.Client), map[string][]int32{tp.topic: {tp.partition}})
				p = r.parts.lookup(tp)
				p.begin(ledger.At(0, 0), false)
				r.fetched(tp, records(0, 10), nil)
				synctest.Wait()
				if at != 5 {
					t.Errorf("while 5 is called, what comes next is %d", at)
				}
			})
		})
	}
}

func TestWhatIsWrongWithAPartitionIsSaidNoMoreOnceItIsNotOurs(t *testing.T) {
	t.Parallel()
	r, tp := lone(t, newJournal().settleAll)
	ours := map[string][]int32{tp.topic: {tp.partition}}
	r.rebalances.onAssigned(t.Context(), new(kgo.Client), ours)
	r.status.unread(tp, kerr.KafkaStorageError, true)
	if r.Status().Err == "" {
		t.Fatal("nothing is said while it is ours")
	}
	if r.rebalances.onLost(t.Context(), nil, ours); r.Status().Err != "" {
		t.Errorf("still said: %s", r.Status().Err)
	}
}

func TestAnErrorOfAPollEndsTheReaderOrHasItsTopicLookedForOrIsOnlySaid(t *testing.T) {
	t.Parallel()
	named, unnamed := topicPartition{"t", 0}, topicPartition{"", 0}
	for _, test := range []struct {
		of     topicPartition
		err    error
		placed bool // it is known where the partition begins
		ours   bool
		fatal  bool
		asked  bool // for its topic
	}{
		{named, kgo.ErrClientClosed, true, true, true, false},
		{named, kerr.InvalidSessionTimeout, true, true, true, false},
		{unnamed, kerr.FencedInstanceID, true, true, true, false},
		{named, kerr.UnknownTopicID, true, true, false, true},
		{named, kerr.UnknownTopicID, false, false, false, true},
		{unnamed, kerr.UnknownTopicID, true, true, false, false},
		{named, kerr.TopicAuthorizationFailed, false, true, false, true},
		{named, kerr.TopicAuthorizationFailed, true, true, false, false},
		{named, kerr.TopicAuthorizationFailed, false, false, false, false},
		{named, kerr.CoordinatorNotAvailable, false, true, false, false},
	} {
		r, tp := lone(t, newJournal().settleAll)
		if test.ours {
			r.rebalances.onAssigned(t.Context(), new(kgo.Client), map[string][]int32{tp.topic: {tp.partition}})
			r.parts.lookup(tp).placed.Store(test.placed)
		}
		fatal := r.intake.trouble(test.of, test.err)
		if asked := slices.Contains(r.heal.due(time.Now()), tp.topic); (fatal != nil) != test.fatal || asked != test.asked {
			t.Errorf("%+v: fatal: %v; asked for its topic: %v", test, fatal, asked)
		}
	}
}

func TestAPollThatAChangeOrAStopInterruptsIsNoTrouble(t *testing.T) {
	t.Parallel()
	for _, err := range []error{context.Canceled, context.DeadlineExceeded} {
		r, _ := lone(t, newJournal().settleAll)
		if got := r.fetched(topicPartition{}, records(0, 0), err); got.failed || got.fatal != nil || r.Status().Err != "" {
			t.Errorf("%v: %+v, %s", err, got, r.Status().Err)
		}
	}
}

func TestWhatTheClientGaveUpToReadIsWrongUntilItIsRead(t *testing.T) {
	t.Parallel()
	r, tp := lone(t, newJournal().settleAll)
	r.rebalances.onAssigned(t.Context(), new(kgo.Client), map[string][]int32{tp.topic: {tp.partition}})
	r.parts.lookup(tp).begin(ledger.At(0, 0), false)
	says := func(when string, want bool) {
		t.Helper()
		r.status.age(time.Now().Add(2 * troubleLasts))
		if said := r.Status().Err; (said != "") != want {
			t.Errorf("%s: %q", when, said)
		}
	}
	r.status.unread(tp, &kgo.ErrDecompressTooLarge{}, true)
	says("before", true)
	r.fetched(tp, records(0, 1), nil)
	says("once records came", false)
}

func TestWhatLiesBeforeTheStartOfTheLogIsLostAndAGapWithinItIsNot(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ next, first, start, lost int64 }{
		{10, 10, 0, 0},
		{10, 10, 10, 0},
		{10, 30, 0, 0},
		{10, 30, 10, 0},
		{10, 30, 25, 15},
		{10, 30, 30, 20},
		{0, 40, 40, 40},
		{-1, 40, 40, 0}, // the group begins there
	} {
		var c counter
		var log logbook
		r, tp := lone(t, newJournal().settleAll)
		r.cfg.Telemetry, r.log = &c, log.logger()
		r.rebalances.onAssigned(t.Context(), new(kgo.Client), map[string][]int32{tp.topic: {tp.partition}})
		r.parts.lookup(tp).begin(ledger.At(test.next, -1), false)
		f := records(test.first, test.first+5)
		f.LogStartOffset = test.start
		r.fetched(tp, f, nil)
		if lost, told := c.lost.Load(), log.count("level=ERROR", "records were deleted"); lost != test.lost || told != int(min(1, test.lost)) {
			t.Errorf("%+v: %d are lost, which is told %d times", test, lost, told)
		}
	}
}

func TestRecordsOfOpenTransactionsAreNoLagUnlessTheyAreRead(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		uncommitted  bool
		stable, want int64
	}{
		{false, 7, 7},
		{false, 0, 0},
		{false, -1, 10}, // the broker says nothing of transactions
		{true, 7, 10},
		{true, -1, 10},
	} {
		r, _ := lone(t, newJournal().settleAll)
		r.cfg.ReadUncommitted = test.uncommitted
		if end := r.endOf(&kgo.FetchPartition{HighWatermark: 10, LastStableOffset: test.stable}); end != test.want {
			t.Errorf("%+v: ends at %d", test, end)
		}
	}
}

func TestTheAverageSizeFollowsWhatComesAndAPollThatBroughtNothingLeavesIt(t *testing.T) {
	t.Parallel()
	var a averageSize
	for _, size := range []int64{1000, 10} {
		for range 30 {
			a.add(10, 10*int(size))
			a.add(0, 0)
		}
		if got := a.value(); got < size-1 || got > size+1 {
			t.Errorf("records of %d bytes have %d on average", size, got)
		}
	}
}

func TestALagIsKnownFromWhatIsReadWithoutAskingForTheEnd(t *testing.T) {
	t.Parallel()
	r, tp := lone(t, newJournal().settleAll)
	r.rebalances.onAssigned(t.Context(), new(kgo.Client), map[string][]int32{tp.topic: {tp.partition}})
	r.parts.lookup(tp).begin(ledger.At(0, 0), false)
	f := records(0, 10)
	f.HighWatermark, f.LastStableOffset = 50, 40
	r.fetched(tp, f, nil)
	within(t, 2*time.Second, "what is not read yet is behind", func() bool { return r.Status().Lag == 30 })
}
