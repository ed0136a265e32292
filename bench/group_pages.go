package main

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

const pagesText = `About a hundred thousand dead messages of 1 KiB, each put there by a handler that failed, are sorted into pages while others peek once a second. A sort is an operation: it lets go of
the dead set every two seconds, and makes pages, which rest for two seconds; it publishes each message, and acks those of a page together; the hand-written program acks a hundred. Then, two seconds apart, over HTTP: all of them by
cause, as a process sees them for the first time, and once more; a list of one, from the middle; that one by its id; and by cause again, after another one was deleted. One such look is held against
a program that consumes all. What is replayed, or deleted into the trash, was sorted and looked at before;
of the time of the delete the two seconds are taken off for which the queues of a new trash rest.`

func pagesGroup() group {
	large := feed{Partitions: 8, ValueBytes: 1024, Keys: 1000}
	const share = 0.0245 // 98,304 by default: one request takes 100,000 at most
	peek := noted("Slowest peek of 100 meanwhile, ms", "peek", "%.0f")
	cold, warm := noted("By cause, first look, ms", "cold", "%.0f"), noted("Second look, ms", "warm", "%.0f")
	list, byID := noted("List of one, ms", "list", "%.0f"), noted("One by id, ms", "by-id", "%.0f")
	changed := noted("By cause after a delete, ms", "changed", "%.0f")
	return group{
		name: "pages", title: "Dead sets in pages", text: pagesText,
		columns: []column{perSecond(), ofBase(), peek, cold, warm, list, byID, changed, cpuSeconds(), cpuOfBase(), brokerOfBase(), peakMemory()},
		cases: []benchCase{
			{name: "hand-move-1k", what: "hand-written: publish, confirm, ack; the records are handled beside it", feed: large, share: share, rabbitmq: true, run: replayByHand},
			{name: "stepwell-sort-1k", what: "an operation sorts all into pages; looks", base: "hand-move-1k", feed: large, share: share, rabbitmq: true, run: stepwellSort,
				bars: []bar{atLeast(0.5, ofBase()), atMost(3000, peek), atMost(8000, cold), atMost(100, warm), atMost(150, byID)}},
			{name: "hand-consume-1k", what: "hand-written: consumes all, acks a hundred at once", feed: large, share: share, rabbitmq: true, run: deleteByHand},
			{name: "stepwell-look-1k", what: "all in pages by cause, over HTTP, as a process sees them for the first time", base: "hand-consume-1k", feed: large, share: share, rabbitmq: true, run: stepwellLook,
				bars: []bar{atLeast(0.5, ofBase())}},
			{name: "stepwell-replay-group", what: "an operation replays one cause, all of it, out of pages", base: "hand-move-1k", feed: large, share: share, rabbitmq: true, run: stepwellReplayGroup,
				bars: []bar{atLeast(0.5, ofBase())}},
			{name: "stepwell-trash-1k", what: "an operation deletes all out of pages, into the trash", base: "hand-move-1k", feed: large, share: share, rabbitmq: true, run: stepwellTrash,
				bars: []bar{atLeast(0.5, ofBase())}},
		},
	}
}

// stepwellSort sorts all, with a peek each second, and then looks at all of it.
func stepwellSort(ctx context.Context, j job, m *meter) error {
	return buried(ctx, j, m, func(ctx context.Context, a api, _ queues) error {
		var slowest time.Duration
		m.begin()
		err := a.operate(ctx, `{"action":"sort","stream":"`+stream+`"}`, j.Records, func() error {
			began := time.Now()
			err := a.peek(ctx, 100)
			slowest = max(slowest, time.Since(began))
			return err
		})
		m.end()
		if err != nil {
			return err
		}
		m.note("peek", float64(slowest.Milliseconds()))
		return lookAtPages(ctx, j, m, a)
	})
}

// stepwellLook looks at all for the first time, after it was sorted.
func stepwellLook(ctx context.Context, j job, m *meter) error {
	return sortedBefore(ctx, j, m, func(ctx context.Context, a api) error {
		m.begin()
		of, err := a.causes(ctx)
		m.end()
		if err == nil && (!of.Complete || of.Groups[0].Count != j.Records) {
			err = fmt.Errorf("not all of %d messages are seen: %+v", j.Records, of)
		}
		return err
	})
}

// stepwellReplayGroup replays all that have one cause, after they were sorted.
func stepwellReplayGroup(ctx context.Context, j job, m *meter) error {
	return sortedBefore(ctx, j, m, func(ctx context.Context, a api) error {
		of, err := a.causes(ctx)
		if err != nil {
			return err
		}
		m.begin()
		defer m.end()
		return a.operate(ctx, `{"action":"replay","stream":"`+stream+`","select":{"group":"`+of.Groups[0].Group+`"}}`, j.Records, nothing)
	})
}

// causes looks at all that is dead, which has one cause.
func (a api) causes(ctx context.Context) (of seen, err error) {
	if err := a.call(ctx, http.MethodGet, "/v1/dead_set/groups?stream="+stream, "", &of); err != nil {
		return of, err
	}
	if len(of.Groups) != 1 {
		return of, fmt.Errorf("there is not one cause: %+v", of)
	}
	return of, nil
}

// newQueues is for how long the queues of a new trash rest: a node that is killed forgets younger
// ones with all that is in them.
const newQueues = 2 * time.Second

// stepwellTrash deletes all, which the trash keeps, after they were sorted.
func stepwellTrash(ctx context.Context, j job, m *meter) error {
	return sortedBefore(ctx, j, m, func(ctx context.Context, a api) error {
		if _, err := a.causes(ctx); err != nil {
			return err
		}
		m.begin()
		defer m.end()
		defer m.apart(newQueues)
		return a.operate(ctx, `{"action":"delete","stream":"`+stream+`","select":{"all":true}}`, j.Records, nothing)
	})
}

func nothing() error { return nil }

// sortedBefore calls f when all that died are in pages, and the broker is quiet again.
func sortedBefore(ctx context.Context, j job, m *meter, f func(context.Context, api) error) error {
	return buried(ctx, j, m, func(ctx context.Context, a api, _ queues) error {
		if err := a.operate(ctx, `{"action":"sort","stream":"`+stream+`"}`, j.Records, nothing); err != nil {
			return err
		}
		if err := quiet(ctx, j.RabbitPID); err != nil {
			return err
		}
		return f(ctx, a)
	})
}

// seen is what looks at a dead set answer.
type seen struct {
	Complete bool
	Depth    int64
	Groups   []struct {
		Group string
		Count int64
	}
	Messages []struct{ ID string }
}

func lookAtPages(ctx context.Context, j job, m *meter, a api) error {
	look := func(name, path string) (of seen, err error) {
		if !sleep(ctx, 2*time.Second) { // nothing that was seen is shared
			return of, context.Cause(ctx)
		}
		began := time.Now()
		err = a.call(ctx, "GET", "/v1/dead_set"+path, "", &of)
		m.note(name, float64(time.Since(began).Milliseconds()))
		return of, err
	}
	groups := func(name string, want int64) error {
		of, err := look(name, "/groups?stream="+stream)
		if err == nil && (!of.Complete || of.Depth != want || len(of.Groups) != 1 || of.Groups[0].Count != want) {
			err = fmt.Errorf("not all of %d messages are seen: %+v", want, of)
		}
		return err
	}
	if err := groups("cold", j.Records); err != nil {
		return err
	}
	if err := groups("warm", j.Records); err != nil {
		return err
	}
	of, err := look("list", fmt.Sprintf("?stream=%s&limit=1&offset_from=%d", stream, j.Records/16))
	if err == nil && len(of.Messages) != 1 {
		err = fmt.Errorf("a list of one: %+v", of)
	}
	if err != nil {
		return err
	}
	id := of.Messages[0].ID
	if _, err = look("by-id", "/messages/"+id+"?stream="+stream); err != nil {
		return err
	}
	err = a.operate(ctx, `{"action":"delete","stream":"`+stream+`","select":{"ids":["`+id+`"]}}`, 1, func() error { return nil })
	if err != nil {
		return err
	}
	return groups("changed", j.Records-1)
}
