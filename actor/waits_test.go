package actor_test

import (
	"context"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
	"github.com/stepwell/stepwell/config"
	"github.com/stepwell/stepwell/retry"
)

// The configuration knows the waits of a policy without package retry.
func TestTheConfigurationTakesWhatWaitsMayBeInPlaceAndNoOthers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := config.Retry{
			InPlace: config.All, Policy: rapid.SampledFrom([]string{config.Linear, config.Exponential}).Draw(t, "policy"),
			Count: new(rapid.IntRange(0, 20).Draw(t, "count")), Delay: time.Duration(rapid.IntRange(1, 1_000_000).Draw(t, "delay")) * time.Millisecond,
		}
		var budget retry.Budget
		if r.Policy == config.Linear {
			r.Step = time.Duration(rapid.IntRange(0, 300_000).Draw(t, "step")) * time.Millisecond
			budget = retry.Linear(r.Delay, r.Step, *r.Count)
		} else {
			r.Factor = rapid.Float64Range(1, 3).Draw(t, "factor")
			r.MaxDelay = r.Delay + time.Duration(rapid.IntRange(0, 1_000_000).Draw(t, "more"))*time.Millisecond
			budget = retry.Exponential(r.Delay, r.Factor, r.MaxDelay, *r.Count)
		}
		fits := budget.Total() <= config.MostRest
		for _, wait := range budget {
			fits = fits && wait <= config.LongestRest
		}
		_, err := actor.Load(actor.App{Name: "shop", Streams: actor.Streams{"orders": {
			Handler: func(context.Context, *stepwell.Message) error { return nil },
			Config:  config.Stream{Topics: []string{"t"}, Retry: r},
		}}}, []string{"KAFKA_BROKERS=k:1", "RABBITMQ_URL=amqp://r"})
		if fits != (err == nil) {
			t.Fatalf("%s of %v: %v", budget, r, err)
		}
	})
}

// Configuration and queues each know what waits there can be, since neither package is to know the
// other.
func TestTheConfigurationTakesWhatWaitsQueuesCanHaveAndNoOthers(t *testing.T) {
	const longestWait = (1<<32 - 1) * time.Millisecond
	waits := func(t *rapid.T, name string) time.Duration {
		return rapid.OneOf(
			rapid.SampledFrom([]time.Duration{0, 1, time.Millisecond, longestWait / 24, longestWait / 2, longestWait - time.Millisecond, longestWait, longestWait + time.Millisecond, 1<<63 - 1}),
			rapid.Map(rapid.Int64Range(1, 1<<33), func(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }),
		).Draw(t, name)
	}
	shop := func(r config.Retry) (_ retry.Topology, refused, impossible error) {
		_, refused = actor.Load(actor.App{Name: "shop", Streams: actor.Streams{"orders": {
			Handler: func(context.Context, *stepwell.Message) error { return nil },
			Config:  config.Stream{Topics: []string{"t"}, Retry: r},
		}}}, []string{"KAFKA_BROKERS=k:1", "RABBITMQ_URL=amqp://r"})
		var budget retry.Budget
		switch r.Policy {
		case config.Exponential:
			budget = retry.Exponential(r.Delay, r.Factor, r.MaxDelay, *r.Count)
		case config.Schedule:
			budget = retry.Schedule(r.Schedule)
		default:
			budget = retry.Linear(r.Delay, r.Step, *r.Count)
		}
		top, impossible := retry.NewTopology("shop", "orders", budget, 1, 0)
		return top, refused, impossible
	}
	const most = 1000 // retries that the configuration takes
	rapid.Check(t, func(t *rapid.T) {
		delay, step := waits(t, "delay"), waits(t, "step")
		count := rapid.OneOf(rapid.IntRange(0, 30), rapid.SampledFrom([]int{24, 25, 1000})).Draw(t, "count")
		if delay == 0 || delay%time.Millisecond != 0 || step%time.Millisecond != 0 {
			t.Skip("a default, or refused for its own sake")
		}
		if count == 0 && delay > longestWait {
			t.Skip("refused though nothing would wait")
		}
		_, refused, impossible := shop(config.Retry{Count: &count, Delay: delay, Step: step})
		if (refused != nil) != (impossible != nil) {
			t.Fatalf("delay %s, step %s, count %d: the configuration says %v, the queues say %v", delay, step, count, refused, impossible)
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		delay, longest := waits(t, "delay"), waits(t, "longest")
		factor := rapid.Float64Range(1, 3).Draw(t, "factor")
		count := rapid.IntRange(1, most).Draw(t, "count")
		if delay == 0 || delay%time.Millisecond != 0 || longest%time.Millisecond != 0 || longest < delay {
			t.Skip("a default, or refused for its own sake")
		}
		_, refused, impossible := shop(config.Retry{Policy: config.Exponential, Count: &count, Delay: delay, Factor: factor, MaxDelay: longest})
		if impossible != nil && refused == nil || refused != nil && impossible == nil && longest <= longestWait {
			t.Fatalf("delay %s, factor %v up to %s, count %d: the configuration says %v, the queues say %v", delay, factor, longest, count, refused, impossible)
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) time.Duration { return waits(t, "wait") }), 1, 30).Draw(t, "list")
		for _, d := range list {
			if d <= 0 || d%time.Millisecond != 0 {
				t.Skip("refused for its own sake")
			}
		}
		_, refused, impossible := shop(config.Retry{Policy: config.Schedule, Schedule: list})
		if (refused != nil) != (impossible != nil) {
			t.Fatalf("schedule %v: the configuration says %v, the queues say %v", list, refused, impossible)
		}
	})
}
