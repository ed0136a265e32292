package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stepwell/stepwell/internal/filter"
	"github.com/stepwell/stepwell/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// set is a dead set in memory.
type set struct {
	mu         sync.Mutex
	all        []any
	acted      []int                                        // the counts of all replays and deletes
	crashLoops int                                          // how many of them were replays of all
	trashed    []string                                     // of deletes into a trash: for how long, by whom, how many
	edits      []edit                                       // all that were asked for
	query      server.Query                                 // the last one
	asked      int                                          // how often anything was asked of it
	trap       func(context.Context) (server.Result, error) // nil: all goes well
}

func newSet(values ...any) *set { return &set{all: values} }

func (s *set) enter(ctx context.Context) (server.Result, error) {
	s.mu.Lock()
	s.asked++
	trap := s.trap
	s.mu.Unlock()
	if trap == nil {
		return server.Result{}, nil
	}
	return trap(ctx)
}

func (s *set) Peek(ctx context.Context, count int) (server.Page, error) {
	if _, err := s.enter(ctx); err != nil {
		return server.Page{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	const most = 3 // of one answer
	return server.Page{Messages: s.all[:min(count, most, len(s.all))], Depth: len(s.all)}, nil
}

func (s *set) Find(ctx context.Context, q server.Query) (server.List, error) {
	if _, err := s.enter(ctx); err != nil {
		return server.List{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.query = q
	if q.After == "gone" {
		return server.List{}, fmt.Errorf("find: %w", server.ErrMoved)
	}
	return server.List{Page: server.Page{Messages: s.all[:min(q.Limit, len(s.all))], Depth: len(s.all)}, Matched: len(s.all), Unsorted: 5, Next: "n"}, nil
}

func (s *set) Groups(ctx context.Context, of filter.Filter) (any, error) {
	if _, err := s.enter(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.query = server.Query{Filter: of}
	return map[string]any{"groups": []any{}}, nil
}

func (s *set) Export(ctx context.Context, of filter.Filter) (server.Export, error) {
	if _, err := s.enter(ctx); err != nil {
		return server.Export{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.query = server.Query{Filter: of}
	return server.Export{Depth: 9, Unsorted: 5, Matched: len(s.all), Each: func(_ context.Context, do func(any) error) error {
		for _, m := range s.all {
			if m == "breaks" {
				return fmt.Errorf("no more")
			}
			if err := do(map[string]any{"id": m}); err != nil {
				return err
			}
		}
		return nil
	}}, nil
}

func (s *set) Message(ctx context.Context, id string) (server.Detail, error) {
	if _, err := s.enter(ctx); err != nil {
		return server.Detail{}, err
	}
	switch id {
	case "pointer":
		return server.Detail{Message: id, Missing: "Kafka no longer has the record"}, nil
	case "a:0:7", "a/b c":
		return server.Detail{Message: id, Value: []byte("<script>")}, nil
	}
	return server.Detail{}, fmt.Errorf("%w among the oldest 3", server.ErrNotFound)
}

func (s *set) Replay(ctx context.Context, count int) (server.Result, error) {
	return s.take(ctx, count)
}
func (s *set) ReplayAll(ctx context.Context, count int) (server.Result, error) {
	s.mu.Lock()
	s.crashLoops++
	s.mu.Unlock()
	return s.take(ctx, count)
}
func (s *set) Delete(ctx context.Context, count int) (server.Result, error) {
	return s.take(ctx, count)
}

func (s *set) Trash(ctx context.Context, keep time.Duration, operation string, count int) (server.Result, error) {
	s.mu.Lock()
	s.trashed = append(s.trashed, fmt.Sprint(keep, " ", operation[:3], " ", count))
	s.mu.Unlock()
	return s.take(ctx, count)
}
func (s *set) FindTrash(ctx context.Context, keep time.Duration, q server.Query) (server.List, error) {
	list, err := s.Find(ctx, q)
	list.Messages = append([]any{fmt.Sprint("kept for ", keep)}, list.Messages...)
	return list, err
}

// Edit notes what an edit was to make of which message.
func (s *set) Edit(ctx context.Context, keep time.Duration, operation, id string, by server.Edit) (string, error) {
	if _, err := s.enter(ctx); err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.edits = append(s.edits, edit{keep, operation, id, by})
	return id + "~" + operation, nil
}

// edit is one that a set was asked for.
type edit struct {
	keep          time.Duration
	operation, id string
	by            server.Edit
}

func (s *set) take(ctx context.Context, count int) (server.Result, error) {
	s.mu.Lock()
	s.acted = append(s.acted, count)
	s.mu.Unlock()
	if r, err := s.enter(ctx); err != nil || r != (server.Result{}) {
		return r, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(count, len(s.all))
	s.all = s.all[n:]
	return server.Result{Requested: count, Done: n, Left: len(s.all)}, nil
}

// acts are the counts of all replays and deletes so far.
func (s *set) acts() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]int{}, s.acted...)
}

func (s *set) fail(trap func(context.Context) (server.Result, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trap = trap
}

// control is a stream that can be paused.
type control struct {
	mu     sync.Mutex
	status server.Status
}

func (c *control) Status(context.Context) server.Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status
}
func (c *control) Pause(by string) {
	c.set(server.ScopeInstance, &server.Pause{Scope: server.ScopeInstance, By: by})
}
func (c *control) Resume()                { c.set(server.ScopeInstance, nil) }
func (c *control) Pauses() []server.Pause { return c.Status(context.Background()).Pauses }

// set replaces the pause of a scope; nil: there is none.
func (c *control) set(scope string, now *server.Pause) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := slices.DeleteFunc(slices.Clone(c.status.Pauses), func(p server.Pause) bool { return p.Scope == scope })
	if now != nil {
		all = append(all, *now)
	}
	c.status.Pauses, c.status.Paused = all, len(all) > 0
}

// log collects what a server logs.
type log struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// world is a server that listens, with the stream orders and the stream plain without retries.
type world struct {
	t      testing.TB
	server *server.Server
	orders *set
	slow   *set // of its channel
	log    *log
	close  context.CancelFunc // ends Open
	opened chan error
	stop   context.CancelFunc // ends Run
	ended  chan error
}

func config(w *world) server.Config {
	return server.Config{
		Address: "127.0.0.1:0",
		Logger:  slog.New(slog.NewTextHandler(w.log, nil)),
		Streams: map[string]server.Stream{
			"orders": {Control: &control{}, DeadSet: w.orders, Channels: map[string]server.DeadSet{"slow": w.slow}},
			"plain":  {Control: &control{}},
		},
	}
}

// start starts a server that lets all requests in.
func start(t testing.TB, change func(*server.Config)) *world {
	t.Helper()
	w := startClosed(t, change)
	w.open()
	return w
}

// startClosed starts a server that answers probes alone.
func startClosed(t testing.TB, change func(*server.Config)) *world {
	t.Helper()
	w := &world{t: t, orders: newSet("a", "b", "c"), slow: newSet("d", "e"), log: &log{}, opened: make(chan error, 1), ended: make(chan error, 1)}
	cfg := config(w)
	if change != nil {
		change(&cfg)
	}
	var err error
	if w.server, err = server.New(cfg); err != nil {
		t.Fatal(err)
	}
	var ctx context.Context
	ctx, w.stop = context.WithCancel(t.Context())
	w.close = func() { w.opened <- nil }
	go func() { w.ended <- w.server.Run(ctx) }()
	t.Cleanup(func() {
		w.close()
		<-w.opened
		w.stop()
		if err := <-w.ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	eventually(t, "the server listens", func() bool { return w.server.Addr() != "" })
	return w
}

func (w *world) open() {
	ctx, cancel := context.WithCancel(w.t.Context())
	w.close = cancel
	go func() { w.opened <- w.server.Open(ctx) }()
	eventually(w.t, "the server is open", func() bool { return w.do("GET", "/openapi.json", "").status == 200 })
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	text   string
	json   map[string]any
}

// do sends a request; a body goes as JSON. Headers are given in pairs; Host is one.
func (w *world) do(method, path, body string, headers ...string) answer {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, "http://"+w.server.Addr()+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		}
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	a := answer{status: resp.StatusCode, header: resp.Header, text: string(data)}
	_ = json.Unmarshal(data, &a.json) // some answers are text
	return a
}

// eventually waits for the condition, for as long as a loaded machine may need.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(30 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("never came true: %s", what)
		}
	}
}

// single is one token, as SERVER_TOKEN is.
func single(secret string) []server.Token {
	return []server.Token{{Name: "token", Role: server.Operator, Secret: secret}}
}
