// Package actortest runs an actor of yours inside a test: the real one, on the brokers of package
// embedded or on those that its settings name.
package actortest

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stepwell/stepwell/actor"
	"github.com/stepwell/stepwell/server"
)

const (
	// patience is how long Await waits, and Start until the actor is ready.
	patience = 30 * time.Second
	// tick is how often they look.
	tick = 10 * time.Millisecond
	// mostDead is how many messages Dead returns at most.
	mostDead = "100"
)

// Actor is an actor that runs until its test ends.
type Actor struct {
	t     testing.TB
	actor *actor.Actor
}

// Start runs the app until the test ends, and returns once it is ready to work. The settings are as
// os.Environ has them, and are all there are: the process's own count for nothing. It serves on a
// free port of localhost, unless SERVER_ADDRESS says otherwise; where that is off it returns at
// once. What is logged is shown with the test, unless the app has a Logger of its own. Mistakes in
// the configuration, a start that fails, and an error of Run at the end fail the test.
func Start(t testing.TB, app actor.App, settings ...string) *Actor {
	t.Helper()
	if app.Logger == nil {
		app.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	cfg, err := actor.Load(app, append([]string{app.EnvPrefix + "SERVER_ADDRESS=localhost:0"}, settings...))
	if err != nil {
		t.Fatal(err)
	}
	a, err := actor.New(cfg, app)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err = a.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
		if err != nil {
			t.Errorf("the actor ended with an error: %v", err)
		}
	})
	started := &Actor{t: t, actor: a}
	if cfg.Server.Address == server.Off {
		return started
	}
	Await(t, "the actor is ready", func() bool {
		select {
		case <-ended:
			t.FailNow() // with its error, by the cleanup
		default:
		}
		return a.Address() != "" && started.get("/readyz", nil) == http.StatusOK
	})
	return started
}

// URL is that of a path, "/readyz" or one of the program's own, on the actor's server.
func (a *Actor) URL(path string) string { return "http://" + a.actor.Address() + path }

// Dead is a message of a dead set.
type Dead struct {
	ID string `json:"id"`
	// Attempts are its tries since it was replayed last, if it ever was.
	Attempts int `json:"attempts"`
	// Reason is one of stepwell's Reason constants, Error what its last try said.
	Reason string `json:"reason"`
	Error  string `json:"error"`
	// Key is empty where the message had none; of one that is no text it is in base64.
	Key string `json:"key"`
	// Value is as /v1 shows it: JSON as it is, and anything else as a JSON string, in base64 where
	// it is no text.
	Value json.RawMessage `json:"value"`
}

// Dead returns the dead messages of a stream, the oldest first, a hundred at most. An actor that
// wants a token for that fails the test.
func (a *Actor) Dead(stream string) []Dead {
	a.t.Helper()
	var page struct {
		Messages []Dead `json:"messages"`
	}
	path := "/v1/dead_set?" + url.Values{"stream": {stream}, "count": {mostDead}}.Encode()
	if status := a.get(path, &page); status != http.StatusOK {
		a.t.Fatalf("GET %s: status %d", path, status)
	}
	return page.Messages
}

// get returns the status; 0 where there was no answer. The answer goes into the pointer, unless it
// is nil.
func (a *Actor) get(path string, into any) (status int) {
	a.t.Helper()
	ask, err := http.NewRequestWithContext(a.t.Context(), http.MethodGet, a.URL(path), http.NoBody)
	if err != nil {
		a.t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(ask)
	if err != nil {
		return 0
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	switch {
	case err != nil:
		return 0
	case into == nil || answer.StatusCode != http.StatusOK:
		return answer.StatusCode
	}
	if err := json.Unmarshal(text, into); err != nil {
		a.t.Fatalf("GET %s: %v: %s", path, err, text)
	}
	return answer.StatusCode
}

// Await waits until it is so, looking every few milliseconds; after 30 seconds the test fails with
// what was waited for.
func Await(t testing.TB, what string, isSo func() bool) {
	t.Helper()
	limit := time.After(patience)
	for !isSo() {
		select {
		case <-time.After(tick):
		case <-limit:
			t.Fatalf("it never came to this: %s", what)
		}
	}
}
