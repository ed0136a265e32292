package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
)

// stored is what was enqueued.
type stored struct {
	mu     sync.Mutex
	all    []stepwell.Message
	afters []time.Duration
	err    error
}

func (s *stored) enqueue(ctx context.Context, stream string, m stepwell.Message, after time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if stream != "calls" {
		return errors.New("stream " + stream)
	}
	if s.err != nil {
		return s.err
	}
	s.all, s.afters = append(s.all, m), append(s.afters, after)
	return nil
}

func (s *stored) calls(t *testing.T) []*call {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*call
	for _, m := range s.all {
		c, err := decodeCall(&m)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	return all
}

// handler makes one that may call the machine itself, unless the configuration says otherwise.
func handler(t *testing.T, s *stored, change func(*Config)) *Handler {
	t.Helper()
	c := Config{Enqueue: s.enqueue, Hosts: []string{"localhost", "127.0.0.1"}}
	if change != nil {
		change(&c)
	}
	h, err := NewHandler(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

// receiver answers as it is told to and keeps what came.
type receiver struct {
	*httptest.Server
	mu       sync.Mutex
	requests []*http.Request
	bodies   []string
}

func newReceiver(t *testing.T, answer http.HandlerFunc) *receiver {
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		r.requests, r.bodies = append(r.requests, req), append(r.bodies, string(body))
		r.mu.Unlock()
		answer(w, req)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.requests)
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

// messageOf is a call as a handler gets it.
func messageOf(t *testing.T, c *call, attempt int) *stepwell.Message {
	t.Helper()
	m, err := c.message()
	if err != nil {
		t.Fatal(err)
	}
	m.Attempt = attempt
	return &m
}

// post sends a body to the server and returns status and answer.
func post(t *testing.T, h *Handler, path, body string, headers ...string) (int, map[string]any) {
	t.Helper()
	return ask(t, h, http.MethodPost, path, body, headers...)
}

func ask(t *testing.T, h *Handler, method, path, body string, headers ...string) (int, map[string]any) {
	t.Helper()
	req := httptest.NewRequest(method, path, strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	NewServer(h).ServeHTTP(w, req)
	var answer map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		t.Fatalf("%s %s: %d %q: %v", method, path, w.Code, w.Body, err)
	}
	return w.Code, answer
}

// table keeps what is set in this process alone.
type table map[string]json.RawMessage

func (t table) Current(name string) (json.RawMessage, bool, error) {
	value, ok := t[name]
	return value, ok, nil
}

func (t table) Latest(_ context.Context, name string) (json.RawMessage, bool, error) {
	return t.Current(name)
}

func (t table) All(context.Context) (map[string]json.RawMessage, error) { return t, nil }

func (t table) Set(_ context.Context, name string, value json.RawMessage, _ time.Time) error {
	t[name] = value
	if value == nil {
		delete(t, name)
	}
	return nil
}
