package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
	"github.com/stepwell/stepwell/chaos/ledger"
	"github.com/stepwell/stepwell/config"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/rabbit"
)

// asSource has the app's records be published to a queue of that type, as a stranger would, which
// the stream sourced consumes: the ledger has them as handed over to a channel, which is that
// stream.
func asSource(app *actor.App, w *ledger.Writer, work stepwell.Handler, kind string) {
	name := "foreign-" + os.Getenv("APP_NAME")
	stranger := rabbit.New(rabbit.Config{URLs: []string{os.Getenv("RABBITMQ_URL")}, ConnectionName: name, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	publisher := stranger.Publisher("stranger")
	app.Start = func(ctx context.Context, _ *actor.Env) error {
		go func() { _ = stranger.Run(context.Background()) }() // as long as the process lives, as another one would
		return makeQueue(ctx, name, kind)
	}
	relay := func(ctx context.Context, m *stepwell.Message) error {
		e, err := entry(m)
		if err != nil {
			return err
		}
		// Before it is published: it may be handled before its confirm is here.
		for _, kind := range []ledger.Kind{ledger.Began, ledger.HandedOver} {
			if e.Kind = kind; w.Write(e) != nil {
				panic("no ledger")
			}
		}
		told := make(chan error, 1)
		publisher.Publish(ctx, name, strangers(m), func(err error) { told <- err })
		return <-told
	}
	sourced := actor.Stream{Config: config.Stream{Queue: name}, Handler: func(ctx context.Context, m *stepwell.Message) error {
		r, err := recordOf(m)
		if err != nil {
			return err
		}
		return work(ctx, r)
	}}
	if os.Getenv(batchVariable) != "" {
		sourced.Handler, sourced.Batch = nil, inTurn(sourced.Handler, false)
	}
	app.Streams = actor.Streams{
		"orders":  {Handler: relay, Channels: app.Streams["orders"].Channels}, // which has nothing to do
		"sourced": sourced,
	}
}

// strangers has the record in its headers alone, as a job has it, and a message-id that another has
// too.
func strangers(m *stepwell.Message) queue.Message {
	job := jobOf(m)
	headers := map[string]any{}
	for _, h := range job.Headers {
		headers[h.Key] = string(h.Value)
	}
	return queue.Message{ID: job.ID, Headers: headers, Body: []byte("x")}
}

// makeQueue makes the queue unless it is there, as its owner would have. RabbitMQ may be away.
func makeQueue(ctx context.Context, name, kind string) error {
	for {
		err := declare(name, kind)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

func declare(name, kind string) error {
	conn, err := amqp.Dial(os.Getenv("RABBITMQ_URL"))
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() { _ = conn.Close() }() // it is done with
	ch, err := conn.Channel()
	if err == nil {
		_, err = ch.QueueDeclare(name, true, false, false, false, amqp.Table{"x-queue-type": kind})
	}
	if err != nil {
		return fmt.Errorf("declare %s: %w", name, err)
	}
	return nil
}
