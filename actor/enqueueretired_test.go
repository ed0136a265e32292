package actor_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
)

// following is an app whose handlers enqueue into their own stream what follows from a job: that of
// the stream, its OnDead, and that of its channel.
type following struct {
	env  *actor.Env
	mu   sync.Mutex
	done []string
	errs []error
}

func (f *following) app() actor.App {
	return actor.App{
		Streams: actor.Streams{"jobs": {
			Enqueued: true, Handler: f.handle,
			OnDead:   func(ctx context.Context, m *stepwell.Message, _ error) error { return f.follow(ctx, m, "OnDead") },
			Channels: actor.Channels{"slow": {Handler: f.slow, OnDead: func(ctx context.Context, m *stepwell.Message, _ error) error { return f.follow(ctx, m, "its OnDead") }}},
		}},
		Start: func(_ context.Context, env *actor.Env) error {
			f.env = env
			return nil
		},
	}
}

func (f *following) handle(ctx context.Context, m *stepwell.Message) error {
	switch string(m.Value) {
	case "call":
		return f.follow(ctx, m, "handler")
	case "death":
		return stepwell.DeadLetter(errFlaky)
	case "hand-over", "death there":
		return stepwell.To("slow")
	}
	f.tell(string(m.Value), nil)
	return nil
}

func (f *following) slow(ctx context.Context, m *stepwell.Message) error {
	if string(m.Value) == "death there" {
		return stepwell.DeadLetter(errFlaky)
	}
	return f.follow(ctx, m, "channel")
}

// follow enqueues what follows from a job.
func (f *following) follow(ctx context.Context, m *stepwell.Message, who string) error {
	err := f.env.Enqueue(ctx, "jobs", stepwell.Message{Value: []byte(who + " of " + string(m.Value))}, 0)
	f.tell("", err)
	return err
}

func (f *following) tell(done string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if done != "" {
		f.done = append(f.done, done)
	}
	if err != nil {
		f.errs = append(f.errs, err)
	}
}

func (f *following) told() (done []string, errs []error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(slices.Values(f.done)), slices.Clone(f.errs)
}

func TestWhatFollowsFromTheJobsOfARetiredStreamIsWorkedOffToo(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		before := &following{}
		r := w.start(before.app(), unaware(settings{"MODES": "api"}))
		r.ready()
		for _, value := range []string{"call", "death", "hand-over", "death there"} {
			job(t, before.env, value, 0)
		}
		r.end()
		f := &following{}
		r = w.start(f.app(), unaware(settings{"STREAMS_JOBS_RETIRED": "true"}))
		want := []string{"OnDead of death", "channel of hand-over", "handler of call", "its OnDead of death there"}
		eventually(t, "what follows is done, or was refused", func() bool {
			done, errs := f.told()
			return len(done) == len(want) || len(errs) > 0
		})
		if done, errs := f.told(); !slices.Equal(done, want) || len(errs) > 0 {
			t.Fatalf("done %q, %v; want %q", done, errs, want)
		}
		eventually(t, "it is empty", func() bool { return r.status("jobs")["empty_since"] != nil })
		if err := f.env.Enqueue(t.Context(), "jobs", stepwell.Message{}, 0); !errors.Is(err, actor.ErrRefused) || !errors.Is(err, actor.ErrRetired) {
			t.Errorf("it takes what does not follow from its jobs: %v", err)
		}
	})
}

func TestARetiredStreamTakesNothingFromTheHandlersOfOthersNorWithoutTheContextOfTheCall(t *testing.T) {
	w := embeddedWorld(t)
	var env *actor.Env
	errs := make(chan error, 10)
	into := func(stream string, with func(context.Context) context.Context) stepwell.Handler {
		return func(ctx context.Context, _ *stepwell.Message) error {
			errs <- env.Enqueue(with(ctx), stream, stepwell.Message{}, 0)
			return nil
		}
	}
	same := func(ctx context.Context) context.Context { return ctx }
	app := actor.App{
		Streams: actor.Streams{
			"live":    {Enqueued: true, Handler: into("retired", same)},
			"former":  {Enqueued: true, Handler: into("retired", same)},
			"retired": {Enqueued: true, Handler: into("retired", func(context.Context) context.Context { return context.Background() })},
		},
		Start: func(ctx context.Context, e *actor.Env) error {
			env = e
			return nil
		},
	}
	r := w.start(app, unaware(settings{"MODES": "api"}))
	r.ready()
	for stream := range app.Streams {
		if err := env.Enqueue(t.Context(), stream, stepwell.Message{}, 0); err != nil {
			t.Fatal(err)
		}
	}
	r.end()
	app.Start = func(ctx context.Context, e *actor.Env) error {
		env = e
		errs <- e.Enqueue(ctx, "retired", stepwell.Message{}, 0)
		return nil
	}
	r = w.start(app, unaware(settings{"STREAMS_RETIRED_RETIRED": "true", "STREAMS_FORMER_RETIRED": "true"}))
	asked := 1 + len(app.Streams)
	eventually(t, "all have asked", func() bool { return len(errs) >= asked })
	for i := range asked {
		if err := <-errs; !errors.Is(err, actor.ErrRefused) {
			t.Errorf("%d: %v", i, err)
		}
	}
	r.queuesEmpty()
	select {
	case err := <-errs:
		t.Errorf("something was stored and handled: %v", err)
	default:
	}
	if _, _, text := r.health(); !hasAll(text, "nothing is enqueued into it any more but by its own handlers") {
		t.Errorf("readyz says %s", text)
	}
}
