package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
	"github.com/stepwell/stepwell/chaos/ledger"
)

// large is from how many bytes on a record has a lot to say when it fails.
const large = 1 << 20

// asJobs has the app's records be enqueued: the ledger has them as handed over to a channel, which
// is the stream of the jobs.
func asJobs(app *actor.App, w *ledger.Writer, work stepwell.Handler) {
	var env *actor.Env
	app.Start = func(_ context.Context, e *actor.Env) error {
		env = e
		return nil
	}
	relay := func(ctx context.Context, m *stepwell.Message) error {
		e, err := entry(m)
		if err != nil {
			return err
		}
		// Before it is enqueued: the job may run before its confirm is here.
		for _, kind := range []ledger.Kind{ledger.Began, ledger.HandedOver} {
			if e.Kind = kind; w.Write(e) != nil {
				panic("no ledger")
			}
		}
		after := time.Duration(0)
		if e.Sequence%8 == 5 {
			after = 1500 * time.Millisecond
		}
		return env.Enqueue(ctx, "jobs", jobOf(m), after)
	}
	app.Streams = actor.Streams{
		"orders": {Handler: relay, Channels: app.Streams["orders"].Channels}, // which has nothing to do
		"jobs": {Enqueued: true, Handler: func(ctx context.Context, m *stepwell.Message) error {
			r, err := recordOf(m)
			if err != nil {
				return err
			}
			err = work(ctx, r)
			if errors.Is(err, errFlaky) && len(r.Value) > large {
				err = fmt.Errorf("%w%s", err, strings.Repeat(" after all", 100)) // more than the queues have room for
			}
			return err
		}},
	}
}

// jobOf has the record in its headers alone: in all that a repeat is known by, each two jobs are
// the same, but for their tokens.
func jobOf(m *stepwell.Message) stepwell.Message {
	id := fmt.Sprintf("%d:%d", m.Origin.Partition, m.Origin.Offset/2)
	return stepwell.Message{ID: id, Time: time.UnixMilli(1), Headers: []stepwell.Header{
		{Key: "key", Value: m.Key}, {Key: "value", Value: m.Value},
		{Key: "partition", Value: fmt.Append(nil, m.Origin.Partition)}, {Key: "offset", Value: fmt.Append(nil, m.Origin.Offset)},
	}}
}

// recordOf is the record of a job, as a message of the channel.
func recordOf(m *stepwell.Message) (*stepwell.Message, error) {
	r := *m
	r.Channel = ledger.Channel
	r.Key, _ = m.Header("key")
	r.Value, _ = m.Header("value")
	partition, _ := m.Header("partition")
	offset, _ := m.Header("offset")
	p, err := strconv.ParseInt(string(partition), 10, 32)
	if err != nil {
		return nil, err
	}
	r.Origin.Partition = int32(p)
	r.Origin.Offset, err = strconv.ParseInt(string(offset), 10, 64)
	return &r, err
}
