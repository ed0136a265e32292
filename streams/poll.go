package streams

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell/internal/crew"
	"github.com/stepwell/stepwell/internal/ledger"
	"github.com/stepwell/stepwell/internal/task"
)

// intake polls the clients, and hands what they bring to the partitions.
type intake struct {
	*common
	crew   *crew.Crew
	gate   *gate
	load   *load
	parts  *assignments
	status *status
	heal   *healer
	tenure tenure // who has load.taking has it
}

func newIntake(s *shared, g *gate, parts *assignments, st *status, heal *healer) *intake {
	in := &intake{common: s.common, crew: s.crew, load: s.load, gate: g, parts: parts, status: st, heal: heal}
	in.tenure.step = max(1, int64(s.cfg.Window.Bytes/8))
	return in
}

// poll reads the share of a fetcher until ctx ends (nil) or the group refuses us for good.
func (in *intake) poll(ctx context.Context, f *fetcher) error {
	failures := 0
	for in.crew.AwaitResume(ctx.Done()) && in.load.await(ctx, f.average.value(), func() { in.makeRoom(f.average.value()) }) {
		var got polled
		in.gate.poll(ctx, func(ctx context.Context) {
			if !in.crew.Paused() {
				got = in.take(ctx, f)
			}
		})
		in.load.kept()
		f.average.add(got.records, got.bytes)
		switch {
		case got.fatal != nil && ctx.Err() == nil:
			return &fatalError{got.fatal}
		case got.records > 0:
			failures = 0
			in.cfg.Telemetry.Consumed(int64(got.records))
			in.status.polled()
		case got.failed: // the client returns some errors at once, again and again
			failures++
			if !task.Sleep(ctx, backoff(failures)) {
				return nil
			}
		}
	}
	return nil
}

// take waits for the first record, and takes as many with it as there is room for then: meanwhile
// another fetcher may have filled it.
func (in *intake) take(ctx context.Context, f *fetcher) polled {
	first := f.client.PollRecords(ctx, 1)
	in.load.taking.Lock()
	defer in.load.taking.Unlock()
	got := in.distribute(f, first)
	if room := in.load.free(f.average.value()); room > 0 && got.records > 0 {
		got.add(in.distribute(f, f.client.PollRecords(nil, int(room)))) //nolint:staticcheck // nil is for what is there
	}
	in.letGo()
	return got
}

// polled is what came of one poll.
type polled struct {
	records, bytes int
	failed         bool
	fatal          error
}

func (p *polled) add(q polled) {
	p.records, p.bytes, p.failed, p.fatal = p.records+q.records, p.bytes+q.bytes, p.failed || q.failed, errors.Join(p.fatal, q.fatal)
}

// distribute hands what was polled to the partitions. Errors come first: the client appends that of
// a log that was cut to the records which it read after it.
func (in *intake) distribute(from *fetcher, fetches kgo.Fetches) (got polled) {
	cuts := map[*partition]ledger.Position{}
	eachPartition(fetches, func(t *kgo.FetchTopic, f *kgo.FetchPartition) {
		if f.Err == nil || interrupted(f.Err) {
			return
		}
		tp := topicPartition{t.Topic, f.Partition}
		if cut := (*kgo.ErrDataLoss)(nil); errors.As(f.Err, &cut) {
			got.failed = true
			in.cut(from, tp, cut, cuts)
			return
		}
		if in.parts.isReadBy(tp, from) {
			from.rest(tp) // the others go on
		} else {
			got.failed = true
		}
		if err := in.trouble(tp, f.Err); err != nil {
			got.fatal = err
		}
	})
	eachPartition(fetches, func(t *kgo.FetchTopic, f *kgo.FetchPartition) {
		tp := topicPartition{t.Topic, f.Partition}
		if len(f.Records) == 0 || !in.parts.isReadBy(tp, from) || in.isOfCut(tp, f, cuts) {
			return
		}
		if f.Err == nil {
			in.status.fetched(tp)
		}
		records, bytes := in.receive(tp, f, t.TopicID)
		got.records += records
		got.bytes += bytes
	})
	for p, at := range cuts {
		in.beginAnew(p, at)
	}
	return got
}

func eachPartition(fetches kgo.Fetches, do func(*kgo.FetchTopic, *kgo.FetchPartition)) {
	for i := range fetches {
		for j := range fetches[i].Topics {
			t := &fetches[i].Topics[j]
			for k := range t.Partitions {
				do(t, &t.Partitions[k])
			}
		}
	}
}

// interrupted says that a poll ended because a change of the assignment, or a stop, wanted it to.
func interrupted(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// receive gives records to their partition. Those of a partition that is not ours are dropped: the
// client may hold some for a moment after it lost the partition, and the next owner reads them.
func (in *intake) receive(tp topicPartition, f *kgo.FetchPartition, topicID [16]byte) (records, bytes int) {
	p := in.parts.lookup(tp)
	if p == nil {
		return 0, 0
	}
	if isBlocked(p) {
		in.putOff(p, f)
		return 0, 0
	}
	first, expected := f.Records[0].Offset, p.position()
	// A gap alone is no loss: compaction and transactions leave some. What lies before the log's
	// start is.
	if lost := min(first, f.LogStartOffset) - expected; expected >= 0 && lost > 0 {
		in.lost(tp, expected, lost)
	}
	records, bytes = p.append(f, topicID, in.tenure.fetched)
	in.load.add(records, bytes)
	in.tenure.fetched += footprint(records, bytes)
	p.roster.Offer()
	return len(f.Records), bytes
}

// putOff has records read again later: those of a partition that waits would fill the window, and
// nobody would run anything of the others.
func (in *intake) putOff(p *partition, f *kgo.FetchPartition) {
	p.sawEnd(in.endOf(f))
	p.fetcher.seek(p.topicPartition, ledger.At(f.Records[0].Offset, f.Records[0].LeaderEpoch))
	p.fetcher.rest(p.topicPartition)
}

// endOf is where the records end that may be read.
func (c *common) endOf(f *kgo.FetchPartition) int64 {
	if c.cfg.ReadUncommitted || f.LastStableOffset < 0 {
		return f.HighWatermark
	}
	return f.LastStableOffset
}

// trouble looks at an error of a poll. It returns those that end the reader.
func (in *intake) trouble(tp topicPartition, err error) error {
	switch {
	case errors.Is(err, kgo.ErrClientClosed):
		return err
	case errors.Is(err, kerr.UnknownTopicID) && tp.topic != "", !kerr.IsRetriable(err) && in.isUnplaced(tp):
		// A topic that was made anew; a partition whose commit could not be read. The client comes
		// back to neither.
		in.heal.ask(tp.topic)
	}
	var huge *kgo.ErrDecompressTooLarge // the client does not ask for it again
	in.status.unread(tp, in.status.explain(tp, err), errors.As(err, &huge))
	if errors.Is(err, kerr.InvalidSessionTimeout) || errors.Is(err, kerr.FencedInstanceID) {
		return in.status.explain(tp, err)
	}
	return nil
}

// isUnplaced says that a partition is ours, and where it begins is not known.
func (in *intake) isUnplaced(tp topicPartition) bool {
	p := in.parts.lookup(tp)
	return p != nil && !p.placed.Load()
}

// makeRoom brings the load up to date. Where there is still no room, who gathers messages is not to
// wait for more of them.
func (in *intake) makeRoom(averageSize int64) {
	in.parts.flush()
	if in.load.free(averageSize) < 1 {
		in.cfg.Calls.Flush()
	}
}

// averageSize is a moving average of what records hold.
type averageSize struct{ size float64 }

func (a *averageSize) value() int64 { return int64(a.size) }

func (a *averageSize) add(records, bytes int) {
	if records > 0 {
		now := float64(bytes) / float64(records)
		a.size += (now - a.size) * 0.3
	}
}
