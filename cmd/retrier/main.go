// Command retrier makes HTTP calls that survive: post one to /calls, and it is made, tried again
// after the waits you gave it, and told of elsewhere when it comes to nothing. It needs RabbitMQ
// and nothing else; with --embedded, to try it, not even that.
//
// It is an actor whose one stream has calls in place of a topic: package webhook says how to have
// the same in a program of one's own. docs/RETRIER.md is for those who only want to use it.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
	"github.com/stepwell/stepwell/config"
	"github.com/stepwell/stepwell/embedded"
	"github.com/stepwell/stepwell/webhook"
)

// embeddedFlag asks for queues inside the process.
const embeddedFlag = "--embedded"

// about is what the usage of all actors cannot say.
const about = embeddedFlag + `, with any command or none, keeps the queues in the process, to try it; else RABBITMQ_URL
says where they are. Calls are posted to /calls: docs/RETRIER.md has all of it.
`

func main() {
	r := &retrier{}
	for _, arg := range os.Args[1:] {
		switch {
		case arg == "--help", arg == "-h", arg == "help":
			fmt.Print(about)
		case strings.HasPrefix(arg, "-") && arg != embeddedFlag && arg != "--version":
			fmt.Fprint(os.Stderr, about)
		}
	}
	if i := slices.Index(os.Args, embeddedFlag); i > 0 {
		os.Args = slices.Delete(os.Args, i, i+1)
		r.embedded = true
	}
	actor.Main(r.app())
}

// retrier is the actor's state.
type retrier struct {
	embedded bool
	handler  *webhook.Handler
	server   *webhook.Server
}

const (
	// stream is the id of the one stream.
	stream = "calls"
	// concurrency is how many calls are made at once, where nobody sets it: they wait for others
	// most of the time.
	concurrency = 64
	// tries is how often a call can be tried again: its own waits end it earlier.
	tries = 1000
	// delay is the wait of a call whose handler ended without a verdict, as with a panic.
	delay = 5 * time.Second
)

// app is the actor.
func (r *retrier) app() actor.App {
	app := actor.App{
		Name:  "retrier",
		Check: check,
		Start: r.start,
		Stop:  r.stop,
		// Who may post a call can reach what this process reaches.
		HTTP:   http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { r.server.ServeHTTP(w, req) }),
		Guard:  true,
		Shared: true,
		Streams: actor.Streams{stream: {
			Enqueued: true,
			Handler:  func(ctx context.Context, m *stepwell.Message) error { return r.handler.Call(ctx, m) },
			OnDead: func(ctx context.Context, m *stepwell.Message, err error) error {
				return r.handler.Fallback(ctx, m, err)
			},
			Config: config.Stream{Concurrency: concurrency, Retry: config.Retry{Count: new(tries), Delay: delay}},
		}},
	}
	if r.embedded {
		app.Brokers = embedded.New(embedded.Options{})
	}
	return app
}

// start makes what calls need, of settings that were checked when they were loaded. Requests are
// let in when it has returned, and messages come later, so that handler and server are there for
// both.
func (r *retrier) start(_ context.Context, env *actor.Env) error {
	s, err := readSettings(env.Config)
	if err != nil {
		return err
	}
	workflows, wrong := s.workflows()
	secrets, wrongSecrets := s.fileSecrets()
	tls, wrongTLS := s.TLS.client()
	// Files may have changed since they were looked at.
	if err := errors.Join(wrong, wrongSecrets, wrongTLS); err != nil {
		return err
	}
	c := webhook.Config{
		Enqueue: env.Enqueue, Refused: actor.ErrRefused, Retired: actor.ErrRetired, TooLarge: actor.ErrTooLarge, Stream: stream, Records: s.records(env, workflows),
		Hosts: s.Hosts, Secrets: slices.Concat(s.Secrets, secrets), TLS: tls,
		Logger: env.Logger, Timeout: s.Timeout, HostLimit: s.HostLimit, BodyLimit: s.BodyLimit,
	}
	if r.handler, err = webhook.NewHandler(c); err != nil {
		return err
	}
	r.server = webhook.NewServer(r.handler)
	env.Logger.Info("calls are posted to /calls, and each brings its own waits", "hosts", s.hosts(), "workflows", len(workflows), "secrets", len(c.Secrets))
	return nil
}

// stop runs when the last call is over.
func (r *retrier) stop(context.Context) error {
	r.handler.Close()
	return nil
}

// records are workflows and cancels, which all processes share unless the settings say otherwise.
func (s *settings) records(env *actor.Env, workflows webhook.Static) webhook.Records {
	if !s.Records {
		return off{workflows}
	}
	return webhook.NewShared(workflows, env.Shared("workflow"), env.Shared("cancelled"))
}

// off are the records of a retrier that has none, by its setting, which its errors name.
type off struct{ webhook.Static }

// SetWorkflow stores nothing.
func (o off) SetWorkflow(ctx context.Context, name string, waits []time.Duration) error {
	return bySetting(o.Static.SetWorkflow(ctx, name, waits))
}

// Cancel cancels nothing.
func (o off) Cancel(ctx context.Context, id string) error { return bySetting(o.Static.Cancel(ctx, id)) }

// bySetting says why there are no records.
func bySetting(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w (APP_RECORDS=false)", err)
}

// hosts says for the log what may be called.
func (s *settings) hosts() string {
	if len(s.Hosts) == 0 {
		return "public addresses"
	}
	return fmt.Sprintf("%d named", len(s.Hosts))
}
