package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stepwell/stepwell"
)

const slowText = `A handler that takes 5 ms, four partitions, 1000 keys; messages of one key run one after another. At most min(concurrency, keys) / 5 ms are possible. The hand-written program has a
queue for each key that has records waiting and as many goroutines as may run at once; the second base are as many goroutines that do nothing but sleep 5 ms, without Kafka: what this machine's timers allow. How long a call that sleeps 5 ms took is told too: what is beyond that is the program's. In the last two cases the others' records are counted, while those of one key of the thousand take 5 ms or a second;
they end long before the slow key has filled the window, when all would wait for it.`

const (
	slowTime    = 5 * time.Millisecond
	slowestTime = time.Second
	slowKeys    = 1000
	slowestKey  = 7
)

func slowGroup() group {
	f := feed{Partitions: 4, ValueBytes: 100, Keys: slowKeys}
	possible := noted("Of possible (lowest … highest)", "share", "%.2f")
	g := group{name: "slow", title: "Slow handlers", text: slowText, columns: []column{
		perSecond(), ofBase(), ofSecond(), possible, noted("5 ms took, ms", "slept", "%.2f"), cpuSeconds(), cpuOfBase(), peakMemory(),
	}}
	least := map[int]float64{100: 0.92, 256: 0.9, 1000: 0.85}
	for _, n := range []int{100, 256, 1000} {
		hand, asleep := fmt.Sprintf("hand-%d", n), fmt.Sprintf("sleep-%d", n)
		share := float64(n) / 2500
		g.cases = append(g.cases,
			benchCase{name: asleep, what: fmt.Sprintf("%d goroutines that sleep", n), feed: f, share: share, run: sleepers(n)},
			benchCase{name: hand, also: asleep, what: fmt.Sprintf("a queue for each key, %d at once", n), feed: f, share: share, run: perKeyByHand(n)},
			benchCase{name: fmt.Sprintf("stepwell-%d", n), what: fmt.Sprintf("actor, ORDER=key, CONCURRENCY=%d", n), base: hand, also: asleep, feed: f, share: share,
				setting: "ORDER=key", run: stepwellSlow(n, slowTime), bars: []bar{atLeast(least[n], possible)}})
	}
	g.cases = append(g.cases,
		benchCase{name: "even", what: "actor, CONCURRENCY=100, 5 ms for all keys", feed: f, share: 0.02, setting: "ORDER=key", run: stepwellSlow(100, slowTime)},
		benchCase{name: "one-slow-key", what: "actor, CONCURRENCY=100, one key takes 1 s", base: "even", feed: f, share: 0.02, setting: "ORDER=key",
			bars: []bar{atLeast(0.95, ofBase())}, run: stepwellSlow(100, slowestTime)})
	return g
}

// sleepers are goroutines that handle records that are not there.
func sleepers(concurrency int) func(context.Context, job, *meter) error {
	return func(ctx context.Context, j job, all *meter) error {
		m := newSlowMeter(all, slowTime)
		defer m.note(concurrency)
		var next atomic.Int64
		var running sync.WaitGroup
		for range concurrency {
			running.Go(func() {
				for ctx.Err() == nil {
					i := next.Add(1) - 1
					m.begin()
					m.sleep()
					if offset := i / int64(j.Feed.Partitions); i < 2*m.wanted {
						m.once(int32(i%int64(j.Feed.Partitions)), offset)
					}
				}
			})
		}
		running.Wait()
		return nil
	}
}

// slowMeter counts all but the slowest key's records.
type slowMeter struct {
	*meter
	slowest time.Duration
	slept   *atomic.Int64 // nanoseconds, all calls together
	calls   *atomic.Int64
}

func newSlowMeter(m *meter, slowest time.Duration) slowMeter {
	m.step = 1 // without that key partitions do not have whole steps
	m.wanted -= m.wanted / slowKeys
	if m.wanted%slowKeys > slowestKey { // the last records are not a whole thousand
		m.wanted--
	}
	return slowMeter{m, slowest, &atomic.Int64{}, &atomic.Int64{}}
}

func (m slowMeter) handle(partition int32, offset int64, key []byte) {
	m.ordered(partition, offset)
	m.begin()
	if binary.BigEndian.Uint32(key) == slowestKey {
		time.Sleep(m.slowest)
		return
	}
	m.sleep()
	m.once(partition, offset)
}

// sleep is the work of a call.
func (m slowMeter) sleep() {
	began := time.Now()
	time.Sleep(slowTime)
	m.slept.Add(int64(time.Since(began)))
	m.calls.Add(1)
}

// note tells what share of the possible was reached, and how long 5 ms were.
func (m slowMeter) note(concurrency int) {
	if wall := m.ended.at.Sub(m.began.at); wall > 0 {
		possible := float64(min(concurrency, slowKeys)) / slowTime.Seconds()
		m.meter.note("share", float64(m.wanted)/wall.Seconds()/possible)
		m.meter.note("slept", float64(m.slept.Load())/float64(m.calls.Load())/float64(time.Millisecond))
	}
}

func stepwellSlow(concurrency int, slowest time.Duration) func(context.Context, job, *meter) error {
	return func(ctx context.Context, j job, all *meter) error {
		m := newSlowMeter(all, slowest)
		defer m.note(concurrency)
		return runActor(ctx, j, func(_ context.Context, msg *stepwell.Message) error {
			m.handle(msg.Origin.Partition, msg.Origin.Offset, msg.Key)
			return nil
		}, "RETRY_ENABLED=false", "ORDER=key", fmt.Sprintf("CONCURRENCY=%d", concurrency))
	}
}
