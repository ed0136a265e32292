package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stepwell/stepwell"
)

const orderText = `RETRY_IN_PLACE=all, ORDER=key: a failing message holds back later ones of its key alone. Eight partitions, a thousand keys of which ten fail at every call, for a minute or, where the
others are done before, until then. Only the others' records are counted. Paced: 2,000 of them a second are let through, with the default windows. Busy and full run as fast as they can, with windows
by the formula of OPERATIONS for as many records as there are: busy with a handler that works for 10 µs, for more than a minute, in which each failing key fails a dozen times; full with one that does
nothing, which is over after a second or two, in which each failing key fails once: it says what it costs that ten messages rest while the others go by. The bases are the same without failures.`

const (
	orderKeys   = 1000
	failingKeys = 10
	failingFor  = time.Minute
	pace        = 2000 // of others, a second
)

// orderGroup asks what keys that fail cost the others where they keep their order.
func orderGroup() group {
	f := feed{Partitions: 8, ValueBytes: 100, Keys: orderKeys}
	rested := noted("Failures in place", "rested", "%.0f")
	g := group{name: "order", title: "Order through retries", text: orderText, columns: append(usual(), rested)}
	for _, speed := range []struct {
		name, what string
		share      float64
		pace       int
		work       time.Duration
	}{
		{"paced", "2,000/s, default windows", 0.03, pace, 0},
		{"busy", "10 µs of work, windows by the formula", 3, 0, 10 * time.Microsecond},
		{"full", "full speed, windows by the formula", 1, 0, 0},
	} {
		for _, fails := range []bool{false, true} {
			c := benchCase{
				name: speed.name + "-even", what: "actor, " + speed.what, feed: f, share: speed.share, rabbitmq: true,
				setting: "RETRY_IN_PLACE=0", run: stepwellInOrder(speed.pace, speed.work, fails),
			}
			if fails {
				c.name, c.base, c.what = speed.name, c.name, c.what+", 1 % of keys fail"
				c.bars = []bar{atLeast(0.95, ofBase())}
			}
			g.cases = append(g.cases, c)
		}
	}
	return g
}

var errKeyFails = errors.New("this key fails")

// stepwellInOrder handles the records of a thousand keys. The handler works for so long on one that
// does not fail; pace is how many of these come in a second, 0: as fast as it can.
func stepwellInOrder(pace int, work time.Duration, fails bool) func(context.Context, job, *meter) error {
	return func(ctx context.Context, j job, m *meter) (err error) {
		q, err := openQueues(j, defaultDelay)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, q.delete()) }()
		var rested atomic.Int64
		defer func() { m.note("rested", float64(rested.Load())) }()
		m.step, m.wanted = 1, othersOf(j.Records)
		began := time.Now()
		turn := pacer(pace)
		settings := []string{"RETRY_IN_PLACE=all", fmt.Sprintf("RETRY_COUNT=%d", failingFor/defaultDelay), "SHUTDOWN_TIMEOUT=5s"}
		if pace == 0 {
			settings = append(settings, windowsFor(j)...)
		}
		return runActor(ctx, j, func(ctx context.Context, msg *stepwell.Message) error {
			if binary.BigEndian.Uint32(msg.Key) < failingKeys {
				if fails && time.Since(began) < failingFor {
					rested.Add(1)
					return errKeyFails
				}
				return nil
			}
			turn(ctx)
			for called := time.Now(); time.Since(called) < work; {
			}
			m.ordered(msg.Origin.Partition, msg.Origin.Offset)
			m.once(msg.Origin.Partition, msg.Origin.Offset)
			return nil
		}, settings...)
	}
}

// othersOf is how many of so many records are of keys that do not fail.
func othersOf(records int64) int64 {
	return records/orderKeys*(orderKeys-failingKeys) + max(0, records%orderKeys-failingKeys)
}

// windowsFor are the windows of the formula where all that there is may be read while a message
// rests: the span has room for all of it, the window for what waits behind failing keys, and as
// much as by default besides.
func windowsFor(j job) []string {
	const recordBytes = 512 // of 100 in the value: a record's own are counted, too
	behind := j.Records - othersOf(j.Records)
	return []string{
		fmt.Sprintf("WINDOW_SPAN=%d", max(1_000_000, j.Records+10_000)),
		fmt.Sprintf("WINDOW_MESSAGES=%d", behind+10_000),
		fmt.Sprintf("WINDOW_BYTES=%d", windowBytes+int(behind)*recordBytes),
	}
}

// pacer returns a function that returns so many times a second; 0: at once.
func pacer(perSecond int) func(context.Context) {
	if perSecond == 0 {
		return func(context.Context) {}
	}
	var turns atomic.Int64
	began := sync.OnceValue(time.Now) // with the first record, not while the group is joined
	return func(ctx context.Context) {
		at := began().Add(time.Duration(turns.Add(1)) * time.Second / time.Duration(perSecond))
		select {
		case <-time.After(time.Until(at)):
		case <-ctx.Done():
		}
	}
}
