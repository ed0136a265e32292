package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
)

const growthText = `How the CPU time of a record grows with partitions and with streams: a handler that counts, RETRY_ENABLED=false, kfake, 100 B. Each stream is a group of its own that reads the same topic. The
peaks contain what the benchmark itself remembers, two bits a record for each partition: 128 MiB of what lives with 64 partitions and 8 million records, and as much again until it is collected.`

func growthGroup() group {
	g := group{name: "growth", title: "Growth", text: growthText, columns: usual()}
	add := func(name, what, base string, partitions, streams int) {
		c := benchCase{name: name, what: what, base: base, share: 2,
			feed: feed{Synthetic: true, Partitions: partitions, ValueBytes: 100}, run: stepwellGrows(streams)}
		if base != "" {
			c.bars = []bar{atMost(1.3, cpuOfBase())}
		}
		g.cases = append(g.cases, c)
	}
	base := ""
	for _, n := range []int{1, 8, 64} {
		name := fmt.Sprintf("partitions-%d", n)
		add(name, fmt.Sprintf("1 stream, %d partitions", n), base, n, 1)
		base = "partitions-1"
	}
	base = ""
	for _, n := range []int{1, 10, 50} {
		name := fmt.Sprintf("streams-%d", n)
		add(name, fmt.Sprintf("%d streams, 4 partitions each", n), base, 4, n)
		base = "streams-1"
	}
	return g
}

// stepwellGrows is an actor with so many streams.
func stepwellGrows(streams int) func(context.Context, job, *meter) error {
	return func(ctx context.Context, j job, m *meter) error {
		m.widen(streams * j.Feed.Partitions)
		app := actor.App{Name: j.App, Streams: actor.Streams{}, Logger: slog.New(slog.DiscardHandler)}
		settings := []string{"KAFKA_BROKERS=" + j.Kafka, "SERVER_ADDRESS=off", "RETRY_ENABLED=false"}
		for i := range streams {
			app.Streams[fmt.Sprintf("s%d", i)] = actor.Stream{Handler: func(_ context.Context, msg *stepwell.Message) error {
				m.once(int32(i*j.Feed.Partitions)+msg.Origin.Partition, msg.Origin.Offset)
				return nil
			}}
			settings = append(settings, fmt.Sprintf("STREAMS_S%d_TOPICS=%s", i, j.Topic))
		}
		cfg, err := actor.Load(app, append(settings, j.Environ...))
		if err != nil {
			return fmt.Errorf("configuration: %w", err)
		}
		a, err := actor.New(cfg, app)
		if err != nil {
			return fmt.Errorf("new actor: %w", err)
		}
		defer actor.TuneGC(app.Logger, cfg.LargestWindow())() // as actor.Main does
		return a.Run(ctx)
	}
}
