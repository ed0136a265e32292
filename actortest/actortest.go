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
	// patience is how long Await, Dead, and Start until the actor is ready, wait at most.
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
	ended chan struct{} // closed when Run has returned
	err   error         // what it returned
}

// Start runs the app until the test ends, and returns once it is ready to work. The settings are as
// os.Environ has them, and stand in place of the process's own variables. It serves on a free port
// of localhost, whatever a file says, unless SERVER_ADDRESS is among the settings; where that is
// off it returns at once. What is logged is shown with the test, unless the app has a Logger of its
// own. Mistakes in the configuration, an actor that does not become ready within 30 seconds, and an
// error of its Run fail the test.
func Start(t testing.TB, app actor.App, settings ...string) *Actor {
	t.Helper()
	if app.Logger == nil {
		app.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	cfg, err := actor.Load(app, append([]string{app.EnvPrefix + "SERVER_ADDRESS=localhost:0"}, settings...))
	if err != nil {
		t.Fatal(err)
	}
	a := &Actor{t: t, ended: make(chan struct{})}
	if a.actor, err = actor.New(cfg, app); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	go func() {
		defer close(a.ended)
		a.err = a.actor.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-a.ended
		if a.err != nil {
			t.Errorf("the actor ended with an error: %v", a.err)
		}
	})
	if cfg.Server.Address == server.Off {
		return a
	}
	why := "it does not listen"
	a.await(func() string { return "it is ready to work; the last answer: " + why }, func() bool {
		status, text := a.get("/readyz?verbose")
		if status != 0 {
			why = string(text)
		}
		return status == http.StatusOK
	})
	return a
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

// Dead returns the dead messages of a stream, the oldest first, a hundred at most, as they were
// within the last second. Where they cannot be looked at for now it waits. A stream without a dead
// set, an actor that wants a token for them or serves nothing, and a test that is over, fail the
// test.
func (a *Actor) Dead(stream string) []Dead {
	a.t.Helper()
	var page struct {
		Messages []Dead `json:"messages"`
	}
	path := "/v1/dead_set?" + url.Values{"stream": {stream}, "count": {mostDead}}.Encode()
	a.Await("dead messages can be looked at", func() bool {
		status, text := a.get(path)
		switch status {
		case http.StatusOK:
		case http.StatusConflict, http.StatusTooManyRequests, http.StatusServiceUnavailable:
			return false
		default:
			a.t.Fatalf("GET %s: status %d: %s", path, status, text)
		}
		if err := json.Unmarshal(text, &page); err != nil {
			a.t.Fatalf("GET %s: %v: %s", path, err, text)
		}
		return true
	})
	return page.Messages
}

// get returns the status, 0 where there was no answer, and the answer.
func (a *Actor) get(path string) (status int, text []byte) {
	ctx, cancel := context.WithTimeout(a.t.Context(), patience)
	defer cancel()
	ask, err := http.NewRequestWithContext(ctx, http.MethodGet, a.URL(path), http.NoBody)
	if err != nil {
		return 0, nil
	}
	answer, err := http.DefaultClient.Do(ask)
	if err != nil {
		return 0, nil
	}
	defer answer.Body.Close()
	if text, err = io.ReadAll(answer.Body); err != nil {
		return 0, nil
	}
	return answer.StatusCode, text
}

// Await waits until it is so, looking every few milliseconds. After 30 seconds, and where the actor
// has ended, the test fails with what was waited for.
func (a *Actor) Await(what string, isSo func() bool) {
	a.t.Helper()
	a.await(func() string { return what }, isSo)
}

func (a *Actor) await(what func() string, isSo func() bool) {
	a.t.Helper()
	limit := time.After(patience)
	for !isSo() {
		select {
		case <-time.After(tick):
		case <-a.ended:
			a.t.Fatalf("the actor has ended before it came to this: %s", what()) // the cleanup says why
		case <-limit:
			a.t.Fatalf("it never came to this: %s", what())
		}
	}
}
