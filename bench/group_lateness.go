package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/retry"
)

const latenessText = `A handler fails 1000 records a second, each once, and each is to be tried again a second later. Lateness is the time between the end of the first try and the beginning of the
second, less that second.`

const jitterText = `A handler fails 300 records as fast as they come, each once, to be tried again a second later. Lateness as above: below zero is early. With RETRY_JITTER=0.3 the wait has four queues, of
which each message takes any: they end with the second, and 75, 150 and 225 ms before.`

const (
	latenessDelay = time.Second
	latenessRate  = 1000                 // a second
	earliness     = 2 * time.Millisecond // brokers count in whole ones
	burst         = 300                  // records that fail at once
	burstJitter   = 0.3
)

func latenessGroup() group {
	f := feed{Partitions: 4, ValueBytes: 100, Keys: 1000}
	middle, late := noted("p50 ms", "p50", "%.1f"), noted("p99 ms", "p99", "%.1f")
	return group{
		name: "lateness", title: "How late a retry comes", text: latenessText,
		columns: []column{middle, late, noted("Highest ms", "max", "%.1f"),
			overBase("p50 over base's, ms", "p50"), overBase("p99 over base's, ms", "p99"), cpuSeconds(), peakMemory()},
		cases: []benchCase{
			{name: "hand", what: "hand-written, as among the failures", feed: f, share: 0.0025, rabbitmq: true, run: lateByHand},
			{name: "stepwell", what: "actor, RETRY_DELAY=1s", base: "hand", feed: f, share: 0.0025, rabbitmq: true, run: stepwellLate,
				bars: []bar{atMost(5, middle), atMost(25, late)}},
		},
	}
}

// jitterGroup asks whether what fails together comes back together.
func jitterGroup() group {
	f := feed{Partitions: 4, ValueBytes: 100, Keys: 1000}
	first, ninth := noted("p10 ms", "p10", "%.1f"), noted("p90 ms", "p90", "%.1f")
	return group{
		name: "jitter", title: "What fails together comes back apart", text: jitterText,
		columns: []column{first, noted("p50 ms", "p50", "%.1f"), ninth, noted("Highest ms", "max", "%.1f")},
		cases: []benchCase{
			{name: "together", what: "actor, 300 records fail at once", feed: f, share: 0.0001, rabbitmq: true, run: burstLate(0)},
			{name: "jitter", what: "actor, 300 records fail at once, RETRY_JITTER=0.3", base: "together", feed: f, share: 0.0001, rabbitmq: true,
				setting: "RETRY_JITTER=0.3", run: burstLate(burstJitter), bars: []bar{atMost(-150, first)}},
		},
	}
}

// lateness is the handler, and what it found.
type lateness struct {
	m     *meter
	pace  time.Duration // 0: as fast as they come
	early time.Duration // that a retry may come
	begin sync.Once
	start time.Time
	calls atomic.Int64
	ended [][]time.Time // the first tries, by partition and offset

	mu   sync.Mutex
	late []time.Duration
}

func newLateness(j job, m *meter) *lateness {
	l := &lateness{m: m, pace: time.Second / latenessRate, early: earliness, ended: make([][]time.Time, j.Feed.Partitions)}
	for i := range l.ended {
		l.ended[i] = make([]time.Time, j.Records)
	}
	return l
}

func (l *lateness) handle(partition int32, offset int64, attempt int) error {
	if attempt > 1 {
		late := time.Since(l.ended[partition][offset]) - latenessDelay
		l.mu.Lock()
		l.late = append(l.late, late)
		l.mu.Unlock()
		if late < -l.early {
			l.m.blame("retries came early")
		}
		l.m.once(partition, offset)
		return nil
	}
	l.begin.Do(func() { l.start = time.Now(); l.m.begin() })
	l.m.ordered(partition, offset)
	time.Sleep(time.Until(l.start.Add(time.Duration(l.calls.Add(1)) * l.pace)))
	l.ended[partition][offset] = time.Now()
	return errFirstTry
}

// note tells the meter what was found.
func (l *lateness) note() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.late) == 0 {
		return
	}
	slices.Sort(l.late)
	at := func(part float64) float64 {
		return float64(l.late[int(part*float64(len(l.late)-1))]) / float64(time.Millisecond)
	}
	l.m.note("p10", at(0.1))
	l.m.note("p50", at(0.5))
	l.m.note("p90", at(0.9))
	l.m.note("p99", at(0.99))
	l.m.note("max", at(1))
}

func stepwellLate(ctx context.Context, j job, m *meter) (err error) {
	q, err := openQueues(j, latenessDelay)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, q.delete()) }()
	l := newLateness(j, m)
	defer l.note()
	return runActor(ctx, j, func(_ context.Context, msg *stepwell.Message) error {
		return l.handle(msg.Origin.Partition, msg.Origin.Offset, msg.Attempt)
	}, "RETRY_DELAY="+latenessDelay.String())
}

// burstLate has so many records fail as fast as they come; those behind them only succeed.
func burstLate(jitter float64) func(context.Context, job, *meter) error {
	return func(ctx context.Context, j job, m *meter) (err error) {
		q, err := openQueues(j, latenessDelay)
		if err != nil {
			return err
		}
		t, err := retry.NewTopology(j.App, stream, []time.Duration{latenessDelay}, 1, jitter)
		if err != nil {
			return fmt.Errorf("queues: %w", err)
		}
		q.more = t.Delays()
		defer func() { err = errors.Join(err, q.delete()) }()
		m.step, m.wanted = 1, burst
		l := newLateness(j, m)
		l.pace, l.early = 0, earliness+time.Duration(jitter*float64(latenessDelay))
		defer l.note()
		var failed atomic.Int64
		return runActor(ctx, j, func(_ context.Context, msg *stepwell.Message) error {
			if msg.Attempt == 1 && failed.Add(1) > burst {
				return nil
			}
			return l.handle(msg.Origin.Partition, msg.Origin.Offset, msg.Attempt)
		}, "RETRY_COUNT=1", "RETRY_DELAY="+latenessDelay.String(), fmt.Sprint("RETRY_JITTER=", jitter))
	}
}

func lateByHand(ctx context.Context, j job, m *meter) (err error) {
	q, err := openQueues(j, latenessDelay)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, q.delete()) }()
	if err := q.declare(ctx); err != nil {
		return err
	}
	l := newLateness(j, m)
	defer l.note()
	return runByHand(ctx, j, q, 1000, inShort, func(t try) error { return l.handle(t.partition, t.offset, t.attempt) })
}
