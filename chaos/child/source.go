package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
	"github.com/stepwell/stepwell/chaos/ledger"
	"github.com/stepwell/stepwell/config"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/rabbit"
)

// exchange, in place of a type, is the stream's own queue, bound to an exchange. What is published
// there has that queue's name for its routing key, and goes by the default exchange.
const exchange = "exchange"

// asSource has the app's records be published to a queue of that type, as a stranger would, which
// the stream sourced consumes: the ledger has them as handed over to a channel, which is that
// stream.
func asSource(app *actor.App, w *ledger.Writer, work stepwell.Handler, kind string) {
	foreign := "foreign-" + os.Getenv("APP_NAME")
	name, of := foreign, config.Stream{}
	if kind == exchange {
		name = os.Getenv("APP_NAME") + ".sourced.source"
		of.Exchange, of.RoutingKeys = "amq.topic", []string{"#"}
	} else {
		of.Queue = name
	}
	stranger := rabbit.New(rabbit.Config{URLs: []string{os.Getenv("RABBITMQ_URL")}, ConnectionName: foreign, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	publisher := stranger.Publisher("stranger")
	app.Start = func(ctx context.Context, _ *actor.Env) error {
		go func() { _ = stranger.Run(context.Background()) }() // as long as the process lives, as another one would
		if kind == exchange {
			return nil // the actor makes it, after this
		}
		return try(ctx, func() error { return declare(name, kind) })
	}
	var there atomic.Bool
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
		if kind == exchange && !there.Load() {
			if err := try(ctx, func() error { return lookFor(name) }); err != nil {
				return err
			}
			there.Store(true)
		}
		told := make(chan error, 1)
		publisher.Publish(ctx, name, strangers(m), func(err error) { told <- err })
		return <-told
	}
	sourced := actor.Stream{Config: of, Handler: func(ctx context.Context, m *stepwell.Message) error {
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

// try does it again until it is done, or ctx ends: RabbitMQ may be away.
func try(ctx context.Context, do func() error) error {
	for {
		err := do()
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

// declare makes the queue unless it is there, as its owner would have.
func declare(name, kind string) error {
	return onChannel(func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(name, true, false, false, false, amqp.Table{"x-queue-type": kind})
		return err
	})
}

// lookFor says whether the queue is there.
func lookFor(name string) error {
	return onChannel(func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
		return err
	})
}

func onChannel(do func(*amqp.Channel) error) error {
	conn, err := amqp.Dial(os.Getenv("RABBITMQ_URL"))
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() { _ = conn.Close() }() // it is done with
	ch, err := conn.Channel()
	if err != nil {
		return fmt.Errorf("open a channel: %w", err)
	}
	return do(ch)
}
