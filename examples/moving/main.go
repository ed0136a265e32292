// Command moving has what other tools call their retries as streams of stepwell: each stream does
// what the program did that docs/MIGRATING.md shows beside it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
	"github.com/stepwell/stepwell/config"
)

type order struct{ ID string }

// What a charge ends with, beside what another try may mend.
var (
	errInvalid = errors.New("no such order")
	errNotYet  = errors.New("not yet")
)

type shop struct {
	env *actor.Env
	// charge stands for the work, tell for what is done about what can never be done.
	charge func(ctx context.Context, id string) error
	tell   func(ctx context.Context, m *stepwell.Message, err error) error
}

func (s *shop) start(_ context.Context, env *actor.Env) error {
	s.env = env
	return nil
}

func (s *shop) order(ctx context.Context, o order, _ *stepwell.Message) error {
	return s.charge(ctx, o.ID)
}

func final(err error) error {
	if errors.Is(err, errInvalid) {
		return stepwell.DeadLetter(err)
	}
	return err
}

// spring is a listener with a @RetryableTopic and a @DltHandler.
func (s *shop) spring() actor.Stream {
	return actor.Stream{
		Handler: stepwell.JSON(s.order),
		Use:     []stepwell.Middleware{stepwell.Classify(final)},
		OnDead:  s.tell,
		Config: config.Stream{Retry: config.Retry{
			Policy: config.Exponential, Count: new(3), Delay: time.Second, Factor: 2, MaxDelay: 5 * time.Second,
		}},
	}
}

// node is a consumer of KafkaJS around an AsyncRetryHelper.
func (s *shop) node() actor.Stream {
	return actor.Stream{
		Handler: stepwell.JSON(s.order),
		Config: config.Stream{Retry: config.Retry{
			Policy: config.Schedule, Schedule: []time.Duration{5 * time.Second, 30 * time.Second, time.Minute},
		}},
	}
}

// insert is the Insert of a client of River, or the Enqueue of one of Asynq: nil means that the job
// is stored. after is how long it waits; 0: it does not.
func (s *shop) insert(ctx context.Context, o order, after time.Duration) error {
	job, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return s.env.Enqueue(ctx, "jobs", stepwell.Message{ID: o.ID, Value: job}, after)
}

// work is a worker of River, or a handler of Asynq.
func (s *shop) work(ctx context.Context, o order, m *stepwell.Message) error {
	switch err := s.charge(ctx, o.ID); {
	case errors.Is(err, errInvalid): // river.JobCancel, asynq.SkipRetry
		return stepwell.DeadLetter(err)
	case errors.Is(err, errNotYet): // river.JobSnooze
		return stepwell.Snooze(10 * time.Minute)
	case err != nil: // River waits for attempt^4 seconds
		n := time.Duration(m.Attempt)
		return stepwell.RetryAfter(err, n*n*n*n*time.Second)
	}
	return nil
}

// watermill is a handler of a router that publishes, with the middlewares Retry and PoisonQueue.
func (s *shop) watermill() actor.Stream {
	return actor.Stream{
		Handler: s.forward,
		Config: config.Stream{Retry: config.Retry{
			InPlace: config.All, Policy: config.Exponential, Count: new(3), Delay: 100 * time.Millisecond, Factor: 2, MaxDelay: time.Second,
		}},
	}
}

func (s *shop) forward(ctx context.Context, m *stepwell.Message) error {
	if err := s.charge(ctx, string(m.Key)); err != nil {
		return err
	}
	return s.env.Produce(ctx, &kgo.Record{Topic: "orders.charged", Key: m.Key, Value: m.Value})
}

func (s *shop) app() actor.App {
	return actor.App{Name: "shop", Start: s.start, Streams: actor.Streams{
		"spring":    s.spring(),
		"node":      s.node(),
		"jobs":      {Enqueued: true, Handler: stepwell.JSON(s.work), Config: config.Stream{Retry: config.Retry{Count: new(24)}}},
		"watermill": s.watermill(),
		"loop":      {Handler: stepwell.JSON(s.order)},
	}}
}

func main() {
	s := &shop{
		charge: func(context.Context, string) error { return nil },
		tell:   func(_ context.Context, _ *stepwell.Message, err error) error { return err },
	}
	actor.Main(s.app())
}
