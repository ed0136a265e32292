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

// Configuration and queues each know what waits there can be, since neither package is to know the other.
func TestTheConfigurationTakesWhatWaitsQueuesCanHaveAndNoOthers(t *testing.T) {
	const longest = (1<<32 - 1) * time.Millisecond
	waits := func(t *rapid.T, name string) time.Duration {
		return rapid.OneOf(
			rapid.SampledFrom([]time.Duration{0, 1, time.Millisecond, longest / 24, longest / 2, longest - time.Millisecond, longest, longest + time.Millisecond, 1<<63 - 1}),
			rapid.Map(rapid.Int64Range(1, 1<<33), func(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }),
		).Draw(t, name)
	}
	rapid.Check(t, func(t *rapid.T) {
		delay, step := waits(t, "delay"), waits(t, "step")
		count := rapid.OneOf(rapid.IntRange(0, 30), rapid.SampledFrom([]int{24, 25, 1000})).Draw(t, "count")
		if delay == 0 || delay%time.Millisecond != 0 || step%time.Millisecond != 0 {
			t.Skip("a default, or refused for its own sake")
		}
		if count == 0 && delay > longest {
			t.Skip("refused though nothing would wait")
		}
		_, refused := actor.Load(actor.App{Name: "shop", Streams: actor.Streams{"orders": {
			Handler: func(context.Context, *stepwell.Message) error { return nil },
			Config:  config.Stream{Topics: []string{"t"}, Retry: config.Retry{Count: &count, Delay: delay, Step: step}},
		}}}, []string{"KAFKA_BROKERS=k:1", "RABBITMQ_URL=amqp://r"})
		_, impossible := retry.NewTopology("shop", "orders", retry.Linear(delay, step, count), 1)
		if (refused != nil) != (impossible != nil) {
			t.Fatalf("delay %s, step %s, count %d: the configuration says %v, the queues say %v", delay, step, count, refused, impossible)
		}
	})
}
