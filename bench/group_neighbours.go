package main

import (
	"context"
	"time"

	"github.com/stepwell/stepwell"
)

const neighboursText = `RabbitMQ is away, and one record of a hundred, of 100 bytes, fails beside neighbours of 10 KiB that succeed, all read as fast as they come. Key and value of a record are slices
of all that was fetched with it: what waits must not hold its neighbours. A backlog of 400 MB; RSS two, five and nine seconds after the first failure, and when the case ends: after ten seconds, or ten minutes. The bound is 64 MiB and
twice WINDOW_BYTES (64 MiB).`

// neighboursGroup asks what failures that wait hold.
func neighboursGroup() group {
	f := feed{Partitions: 8, ValueBytes: 10 << 10, SmallEvery: 100, Keys: 1000}
	const bound = 64 + 2*windowBytes>>20
	last := noted("RSS MiB at the end", "rss-end", "%.0f")
	of := func(name, what string, away time.Duration) benchCase {
		return benchCase{
			name: name, what: what, feed: f, share: 0.01, rabbitmq: true, run: stepwellNeighbours(away),
			bars: []bar{atMost(bound, last), atMost(bound, peakMemory())},
		}
	}
	return group{
		name: "neighbours", title: "What failures that wait hold", text: neighboursText,
		columns: []column{noted("RSS MiB at 2 s", "rss-2", "%.0f"), noted("RSS MiB at 5 s", "rss-5", "%.0f"), noted("RSS MiB at 9 s", "rss-9", "%.0f"), last, peakMemory(), noted("Records read", "read", "%.0f")},
		cases: []benchCase{
			of("neighbours", "actor, 1 % fail, RabbitMQ away", stuckFor),
			of("neighbours-for-minutes", "the same, for ten minutes", 10*time.Minute),
		},
	}
}

// stepwellNeighbours is an actor without RabbitMQ for so long.
func stepwellNeighbours(away time.Duration) func(context.Context, job, *meter) error {
	return func(ctx context.Context, j job, m *meter) error {
		return runAway(ctx, j, m, away, func() { m.noteRSS(ctx, away) }, func(_ context.Context, msg *stepwell.Message) error {
			m.read.Add(1)
			if j.Feed.small(msg.Origin.Offset) {
				return errFirstTry
			}
			return nil
		})
	}
}

// noteRSS notes how much memory the process has so long after the first record, and a second before
// the case ends.
func (m *meter) noteRSS(ctx context.Context, spell time.Duration) {
	began := time.Now()
	for _, moment := range []struct {
		name string
		at   time.Duration
	}{{"2", 2 * time.Second}, {"5", 5 * time.Second}, {"9", 9 * time.Second}, {"end", spell - time.Second}} {
		select {
		case <-time.After(time.Until(began.Add(moment.at))):
		case <-ctx.Done():
			return
		}
		rss, err := statusOf("VmRSS:")
		if err != nil {
			m.blame(err.Error())
		}
		m.note("rss-"+moment.name, float64(rss)/(1<<20))
	}
	m.note("read", float64(m.read.Load()))
}
