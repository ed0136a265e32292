package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stepwell/stepwell"
)

const latenessText = `A handler fails 1000 records a second, each once, and each is to be tried again a second later. Lateness is the time between the end of the first try and the beginning of the
second, less that second.`

const (
	latenessDelay = time.Second
	latenessRate  = 1000                 // a second
	earliness     = 2 * time.Millisecond // brokers count in whole ones
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

// lateness is the handler, and what it found.
type lateness struct {
	m     *meter
	pace  time.Duration
	begin sync.Once
	start time.Time
	calls atomic.Int64
	ended [][]time.Time // the first tries, by partition and offset

	mu   sync.Mutex
	late []time.Duration
}

func newLateness(j job, m *meter) *lateness {
	l := &lateness{m: m, pace: time.Second / latenessRate, ended: make([][]time.Time, j.Feed.Partitions)}
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
		if late < -earliness {
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
	l.m.note("p50", at(0.5))
	l.m.note("p99", at(0.99))
	l.m.note("max", at(1))
}

func stepwellLate(ctx context.Context, j job, m *meter) (err error) {
	q, err := openQueues(j, latenessDelay, false)
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

func lateByHand(ctx context.Context, j job, m *meter) (err error) {
	q, err := openQueues(j, latenessDelay, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, q.delete()) }()
	if err := q.declare(ctx); err != nil {
		return err
	}
	l := newLateness(j, m)
	defer l.note()
	return runByHand(ctx, j, q, 1000, func(t try) error { return l.handle(t.partition, t.offset, t.attempt) })
}
