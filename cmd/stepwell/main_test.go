package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell/server"
)

// set is a dead set of an actor that the commands talk to.
type set struct {
	left int
	err  error

	crashLoop bool // the last replay was one of all
}

func (s *set) Peek(_ context.Context, count int) (server.Page, error) {
	page := server.Page{Depth: s.left}
	for range min(count, s.left, 2) {
		page.Messages = append(page.Messages, map[string]any{"id": "orders.v1:0:7", "attempts_total": 4, "reason": "exhausted", "error": "no \x1b[31mstock\nat all"})
	}
	return page, s.err
}

func (s *set) Replay(ctx context.Context, count int) (server.Result, error) {
	return s.Delete(ctx, count)
}

func (s *set) ReplayAll(ctx context.Context, count int) (server.Result, error) {
	s.crashLoop = true
	return s.Delete(ctx, count)
}

func (s *set) Delete(_ context.Context, count int) (server.Result, error) {
	if s.err != nil {
		return server.Result{}, s.err
	}
	n := min(count, s.left)
	s.left -= n
	return server.Result{Requested: count, Done: n, Left: s.left}, nil
}

type control struct{ now server.Status }

func (c *control) Status(context.Context) server.Status { return c.now }
func (c *control) Pause()                               { c.now.Paused = true }
func (c *control) Resume()                              { c.now.Paused = false }

// serve runs an actor's server with three dead messages until the test ends.
func serve(t *testing.T, token string) (address string, dead *set) {
	t.Helper()
	dead = &set{left: 3}
	queues := map[string]int{"shop.orders.dead_set": 3, "shop.orders.instant": 0}
	oldest := &server.Oldest{Topic: "orders.v1", Partition: 3, Offset: 17, AgeSeconds: 130.4}
	s, err := server.New(server.Config{
		Address: "127.0.0.1:0", Token: token, PeekWait: time.Millisecond,
		Streams: map[string]server.Stream{"orders": {Control: &control{server.Status{Joined: true, Lag: 12, Queues: queues, Oldest: oldest}}, DeadSet: dead}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- s.Run(ctx) }()
	go func() { ended <- s.Open(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ended, <-ended); err != nil {
			t.Error(err)
		}
	})
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(30 * time.Second)
	for {
		if s.Addr() != "" {
			if _, _, code := command(t, s.Addr(), "streams", "--token", "any"); code != exitAgain {
				return s.Addr(), dead
			}
		}
		select {
		case <-tick.C:
		case <-limit:
			t.Fatal("the server did not open")
		}
	}
}

// command runs the program.
func command(t *testing.T, address string, args ...string) (out, errs string, code int) {
	t.Helper()
	var o, e bytes.Buffer
	code = run(t.Context(), append(args, "--address", address), &o, &e)
	return o.String(), e.String(), code
}

func TestEachCommandDoesWhatItSays(t *testing.T) {
	address, _ := serve(t, "")
	steps := []struct {
		args string
		says []string
	}{
		{"streams", []string{"STREAM", "orders", "running", "12", "orders.v1/3@17 2m10s", "shop.orders.dead_set=3"}},
		{"pause orders", []string{"orders is paused"}},
		{"streams", []string{"paused"}},
		{"resume orders", []string{"orders is resumed"}},
		{"dead-set peek --stream orders --count 2", []string{"ID", "orders.v1:0:7", "exhausted", "no  [31mstock at all"}},
		{"dead-set peek -s orders -n 5", []string{"orders.v1:0:7", "the oldest 2 of 3"}},
		{"dead-set replay --stream=orders --count=2", []string{"replayed 2 of 2", "1 left"}},
		{"dead-set delete -s orders -n 5", []string{"deleted 1 of 5", "0 left"}},
		{"dead-set peek -s orders -n 5", []string{"none"}},
	}
	for _, step := range steps {
		out, errs, code := command(t, address, strings.Fields(step.args)...)
		for _, text := range step.says {
			if !strings.Contains(out, text) {
				t.Errorf("%s: %q is not in %q", step.args, text, out)
			}
		}
		if code != exitOK || errs != "" || strings.Contains(out, "\x1b") {
			t.Errorf("%s: exit %d, %q, %q", step.args, code, out, errs)
		}
	}
}

func TestJSONIsWhatTheActorAnswered(t *testing.T) {
	address, dead := serve(t, "")
	for _, args := range []string{"streams", "pause orders", "dead-set peek -s orders -n 1", "dead-set replay -s orders -n 1", "dead-set replay -s other -n 1"} {
		out, _, _ := command(t, address, append(strings.Fields(args), "--json")...)
		if !json.Valid([]byte(out)) {
			t.Errorf("%s: %s", args, out)
		}
	}
	if dead.left != 2 {
		t.Errorf("%d left", dead.left)
	}
}

func TestWhatWentWrongIsSaidInWordsAndByTheExitCode(t *testing.T) {
	address, dead := serve(t, "")
	tests := []struct {
		name, args string
		err        error
		code       int
		says       string
	}{
		{"unknown stream", "dead-set replay -s ordres -n 1", nil, exitFailed, "streams are: orders"},
		{"unknown stream to pause", "pause ordres", nil, exitFailed, "404"},
		{"another walk", "dead-set delete -s orders -n 1", server.ErrBusy, exitAgain, "try again in 1 s"},
		{"brokers away", "dead-set replay -s orders -n 1", server.ErrUnavailable, exitAgain, "not available"},
		{"count above the limit", "dead-set replay -s orders -n 100001", nil, exitFailed, "100000"},
		{"count 0", "dead-set replay -s orders -n 0", nil, exitUsage, "count"},
		{"count in words", "dead-set replay -s orders -n abc", nil, exitUsage, "count"},
		{"no count", "dead-set delete -s orders", nil, exitUsage, "--count"},
		{"no stream", "dead-set delete -n 1", nil, exitUsage, "--stream"},
		{"no command", "", nil, exitUsage, "--help"},
		{"the stream as an argument", "dead-set peek orders", nil, exitUsage, "usage: stepwell dead-set peek --stream"},
		{"unknown command", "dead-set purge", nil, exitUsage, "purge"},
		{"missing token file", "streams --token-file /nowhere/token", nil, exitUsage, "token-file"},
		{"nobody there", "streams --address 127.0.0.1:1", nil, exitFailed, "reach the actor"},
		{"no address", "streams --address ftp://x", nil, exitUsage, "--address"},
	}
	for _, test := range tests {
		dead.err = test.err
		args := strings.Fields(test.args)
		if !strings.Contains(test.args, "--address") {
			args = append(args, "--address", address)
		}
		var out, errs bytes.Buffer
		if code := run(t.Context(), args, &out, &errs); code != test.code || !strings.Contains(errs.String(), test.says) {
			t.Errorf("%s: exit %d, %q", test.name, code, errs.String())
		}
	}
	if dead.left != 3 {
		t.Errorf("%d left", dead.left)
	}
}

func TestTheTokenComesFromTheVariableOrAFile(t *testing.T) {
	address, _ := serve(t, "swordfish")
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("swordfish\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, errs, code := command(t, address, "streams"); code != exitFailed || !strings.Contains(errs, "SERVER_TOKEN") {
		t.Errorf("without: %d %s", code, errs)
	}
	if _, errs, code := command(t, address, "streams", "--token-file", file); code != exitOK {
		t.Errorf("from a file: %d %s", code, errs)
	}
	t.Setenv("STEPWELL_TOKEN", "swordfish")
	if _, errs, code := command(t, address, "streams"); code != exitOK {
		t.Errorf("from the variable: %d %s", code, errs)
	}
}

func TestHelpIsNoMistake(t *testing.T) {
	if out, errs, code := command(t, "localhost:1", "--help"); code != exitOK || !strings.Contains(out, "dead-set") || errs != "" {
		t.Errorf("%d %q %q", code, out, errs)
	}
}
