package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
)

const memoryText = `A backlog of five million records, read by a fast handler, by one that never returns, and by one that fails while RabbitMQ is away (both for ten seconds). The bound is twice what the bare loop takes for the
same backlog, and WINDOW_BYTES (64 MiB). *zstd* is 64 partitions of values of 1 KiB whose batches are compressed to about an eightieth; there one fetch
of the bare loop holds most of the backlog, so the bound is far away, and the RSS says more.`

const (
	windowBytes = 64 << 20
	stuckFor    = 10 * time.Second
)

func memoryGroup() group {
	bound := func(base result) float64 { return float64(2*base.PeakRSS + windowBytes) }
	ofBound := column{title: "Of the bound (lowest … highest)", format: "%.2f", compares: true, spread: true,
		of: func(mine, base result) float64 { return float64(mine.PeakRSS) / bound(base) }}
	g := group{name: "memory", title: "Memory", text: memoryText, columns: []column{
		peakMemory(),
		{title: "Bound MiB", format: "%.0f", compares: true, of: func(_, base result) float64 { return bound(base) / (1 << 20) }},
		ofBound,
	}}
	for _, kind := range []struct {
		suffix string
		feed   feed
		share  float64
	}{
		{"", feed{Partitions: 8, ValueBytes: 100, Keys: 1000}, 1.25},
		{"-zstd", feed{Partitions: 64, ValueBytes: 1024, Keys: 1024, Zstd: true}, 1.25},
	} {
		base := "bare" + kind.suffix
		add := func(name, what, base string, rabbitmq bool, run func(context.Context, job, *meter) error) {
			c := benchCase{name: name + kind.suffix, what: what, base: base, feed: kind.feed, share: kind.share, rabbitmq: rabbitmq, run: run}
			if base != "" {
				c.bars = []bar{atMost(1, ofBound)}
			}
			g.cases = append(g.cases, c)
		}
		add("bare", "poll loop, defaults", "", false, bare)
		add("fast", "actor, a handler that counts", base, false, stepwellSucceeds((*meter).once, "RETRY_ENABLED=false"))
		add("blocked", "actor, a handler that never returns", base, false, stepwellBlocked)
		add("away", "actor, a handler that fails, RabbitMQ away", base, true, stepwellAway)
	}
	return g
}

func stepwellBlocked(ctx context.Context, j job, m *meter) error {
	s := newStuck(ctx, m, stuckFor)
	defer s.Wait()
	return runActor(ctx, j, func(ctx context.Context, _ *stepwell.Message) error {
		s.begin()
		<-ctx.Done()
		return ctx.Err()
	}, "RETRY_ENABLED=false", "SHUTDOWN_TIMEOUT=1s")
}

func stepwellAway(ctx context.Context, j job, m *meter) error {
	fails := func(context.Context, *stepwell.Message) error { return errFirstTry }
	return runAway(ctx, j, m, stuckFor, func() {}, fails)
}

// runAway runs an actor that RabbitMQ is cut off from by its first record, until the case ends so
// long after that; beside runs meanwhile.
func runAway(ctx context.Context, j job, m *meter, spell time.Duration, beside func(), handle stepwell.Handler) (err error) {
	q, err := openQueues(j, defaultDelay)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, q.delete()) }()
	p, through, err := newProxy(ctx, j.RabbitMQ)
	if err != nil {
		return err
	}
	defer p.cut()
	j.RabbitMQ = through
	s := newStuck(ctx, m, spell)
	defer s.Wait()
	var first sync.Once
	return runActor(ctx, j, func(ctx context.Context, msg *stepwell.Message) error {
		first.Do(func() {
			s.begin()
			s.Go(beside)
			p.cut()
		})
		return handle(ctx, msg)
	}, "SHUTDOWN_TIMEOUT=1s")
}

// stuck ends a case some time after its first record.
type stuck struct {
	sync.WaitGroup
	ctx   context.Context
	m     *meter
	spell time.Duration
	first sync.Once
}

func newStuck(ctx context.Context, m *meter, spell time.Duration) *stuck {
	return &stuck{ctx: ctx, m: m, spell: spell}
}

func (s *stuck) begin() {
	s.first.Do(func() {
		s.m.begin()
		s.Go(func() {
			select {
			case <-time.After(s.spell):
				s.m.finish()
			case <-s.ctx.Done():
			}
		})
	})
}
