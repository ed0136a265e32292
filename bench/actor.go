package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
)

// stream is the stream-id of the actors.
const stream = "records"

// sourceQueue begins the setting of an actor that reads no Kafka.
const sourceQueue = "STREAMS_RECORDS_QUEUE="

// newActor is an actor as anybody would write it, with the defaults but for what a case sets. tune
// is what actor.Main does beside it.
func newActor(j job, of actor.Stream, settings ...string) (a *actor.Actor, tune func() (undo func()), err error) {
	app := actor.App{
		Name:    j.App,
		Streams: actor.Streams{stream: of},
		Logger:  slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})), // why nothing comes
	}
	environ := []string{"KAFKA_BROKERS=" + j.Kafka, "RABBITMQ_URL=" + j.RabbitMQ, "SERVER_ADDRESS=off"}
	if !slices.ContainsFunc(settings, func(s string) bool { return strings.HasPrefix(s, sourceQueue) }) {
		environ = append(environ, "STREAMS_RECORDS_TOPICS="+j.Topic, "STREAMS_RECORDS_GROUP="+j.ConsumerGroup)
	}
	cfg, err := actor.Load(app, append(append(environ, settings...), j.Environ...))
	if err != nil {
		return nil, nil, fmt.Errorf("configuration: %w", err)
	}
	if a, err = actor.New(cfg, app); err != nil {
		return nil, nil, fmt.Errorf("new actor: %w", err)
	}
	return a, func() func() { return actor.TuneGC(slog.New(slog.DiscardHandler), cfg.LargestWindow()) }, nil
}

// runActor runs one until ctx ends.
func runActor(ctx context.Context, j job, handler stepwell.Handler, settings ...string) error {
	return runStream(ctx, j, actor.Stream{Handler: handler}, settings...)
}

// runStream is runActor for a stream that has more than a handler.
func runStream(ctx context.Context, j job, of actor.Stream, settings ...string) error {
	a, tune, err := newActor(j, of, settings...)
	if err != nil {
		return err
	}
	defer tune()()
	return a.Run(ctx)
}
