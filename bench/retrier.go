package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
	"github.com/stepwell/stepwell/config"
	"github.com/stepwell/stepwell/webhook"
)

// retrierCallsStream is the stream of the retrier.
const retrierCallsStream = "calls"

// retrier is the program of that name, in this process.
type retrier struct {
	job      job
	settings []string
	keep     bool          // its queues stay, for another
	handled  *atomic.Int64 // counts tries, and calls that were put off; may be nil

	actor     *actor.Actor
	handler   *webhook.Handler
	server    *webhook.Server
	cancelled *actor.Shared
}

// app is what cmd/retrier makes.
func (r *retrier) app() actor.App {
	return actor.App{
		Name: r.job.App, Shared: true, Guard: true, Start: r.start,
		Stop:   func(context.Context) error { r.handler.Close(); return nil },
		HTTP:   http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { r.server.ServeHTTP(w, req) }),
		Logger: slog.New(slog.DiscardHandler),
		Streams: actor.Streams{retrierCallsStream: {
			Enqueued: true,
			Handler: func(ctx context.Context, m *stepwell.Message) error {
				err := r.handler.Call(ctx, m)
				if r.handled != nil {
					r.handled.Add(1)
				}
				return err
			},
			OnDead: func(ctx context.Context, m *stepwell.Message, err error) error {
				return r.handler.Fallback(ctx, m, err)
			},
			Config: config.Stream{Concurrency: 64, Retry: config.Retry{Count: new(1000), Delay: 5 * time.Second}},
		}},
	}
}

func (r *retrier) start(_ context.Context, env *actor.Env) (err error) {
	r.cancelled = env.Shared("cancelled")
	r.handler, err = webhook.NewHandler(webhook.Config{
		Enqueue: env.Enqueue, Refused: actor.ErrRefused, Stream: retrierCallsStream, Hosts: []string{"127.0.0.1"},
		Records: webhook.NewShared(webhook.Static{}, env.Shared("workflow"), r.cancelled),
	})
	if err == nil {
		r.server = webhook.NewServer(r.handler)
	}
	return err
}

// run runs it while f does, and finishes the meter, if there is one.
func (r *retrier) run(ctx context.Context, f func(context.Context) error, m *meter) (err error) {
	app := r.app()
	environ := []string{"RABBITMQ_URL=" + r.job.RabbitMQ, "SERVER_ADDRESS=127.0.0.1:0"}
	cfg, err := actor.Load(app, append(append(environ, r.settings...), r.job.Environ...))
	if err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	if r.actor, err = actor.New(cfg, app); err != nil {
		return fmt.Errorf("new actor: %w", err)
	}
	defer actor.TuneGC(app.Logger, cfg.LargestWindow())() // as actor.Main does
	if !r.keep {
		defer func() { err = errors.Join(err, r.delete()) }()
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- r.actor.Run(running) }()
	if err = r.ready(ctx); err == nil {
		err = f(ctx)
	}
	stop()
	if err = errors.Join(err, <-ended); err == nil && m != nil {
		m.finish()
	}
	return err
}

// calls is where calls are posted.
func (r *retrier) calls() string { return "http://" + r.actor.Address() + "/calls" }

// ready returns when it is, and knows what is cancelled: without that it makes no calls.
func (r *retrier) ready(ctx context.Context) error {
	for {
		if address := r.actor.Address(); address != "" {
			answer, err := http.Get("http://" + address + "/readyz") //nolint:noctx // it answers at once
			if err == nil {
				_ = answer.Body.Close() // its status is all that counts
			}
			if err == nil && answer.StatusCode == http.StatusOK {
				if _, _, err := r.cancelled.Latest(ctx, "none"); err == nil {
					return nil
				}
			}
		}
		if err := waitFor(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// delete removes its queues.
func (r *retrier) delete() error {
	names := []string{"records", "calls.instant", "calls.dead_set"}
	for _, ms := range []int{1000, 5000, 10_000, 15_000, 60_000, 300_000, 900_000, 3_600_000, 21_600_000, 86_400_000} {
		names = append(names, fmt.Sprintf("calls.delay.%d", ms))
	}
	err := queues{url: r.job.RabbitMQ}.on(func(ch *amqp.Channel) error {
		for _, name := range names {
			if _, err := ch.QueueDelete(r.job.App+"."+name, false, false, false); err != nil { // one that is not there is no error
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("delete queues: %w", err)
	}
	return nil
}
