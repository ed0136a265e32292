package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// errStopping is why the context of a request ends at a stop.
var errStopping = errors.New("the actor stops")

// gate lets requests in between start and stop, and knows how many are inside.
type gate struct {
	work   context.Context // ends when requests must end
	cancel context.CancelCauseFunc

	// mu guards the fields below.
	mu sync.Mutex
	// phase goes from starting to opened to closed, and never back.
	phase phase
	// running counts the requests inside.
	running int
	empty   chan struct{} // closed when the gate is closed and nobody is inside
	// closing ends when the gate is closed: those inside who wait for news go then.
	closing context.Context
	close   context.CancelFunc
}

type phase int

const (
	starting phase = iota + 1
	opened
	closed
)

// afterCancel is how long requests may take to end once their context has.
const afterCancel = time.Second

func newGate() *gate {
	work, cancel := context.WithCancelCause(context.Background())
	closing, close := context.WithCancel(context.Background())
	return &gate{work: work, cancel: cancel, phase: starting, empty: make(chan struct{}), closing: closing, close: close}
}

// enter lets a request in. leave must be called when it is done.
func (g *gate) enter(r *http.Request) (inside *http.Request, leave func(), err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch g.phase { //nolint:exhaustive // opened is what follows
	case starting:
		return nil, nil, &problem{status: http.StatusServiceUnavailable, detail: "the actor is starting", retryAfter: 1}
	case closed:
		return nil, nil, &problem{status: http.StatusServiceUnavailable, detail: "the actor is stopping", retryAfter: 5}
	}
	g.running++
	// A request ends with its client or with the actor, whichever comes first.
	ctx, cancel := context.WithCancelCause(r.Context())
	unhook := context.AfterFunc(g.work, func() { cancel(context.Cause(g.work)) })
	return r.WithContext(ctx), func() {
		unhook()
		cancel(nil)
		g.left()
	}, nil
}

func (g *gate) left() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running--
	if g.phase == closed && g.running == 0 {
		close(g.empty)
	}
}

func (g *gate) is() phase {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.phase
}

// open lets requests in until ctx ends, then closes and waits for those inside.
func (g *gate) open(ctx context.Context, drain time.Duration) error {
	g.mu.Lock()
	g.phase = opened
	g.mu.Unlock()
	<-ctx.Done()
	g.mu.Lock()
	g.phase = closed
	g.close()
	if g.running == 0 {
		close(g.empty)
	}
	g.mu.Unlock()
	defer g.cancel(errStopping)
	// In three steps: those inside end by themselves; then their contexts end; then they are
	// counted, and left behind.
	if g.wait(drain) {
		return nil
	}
	g.cancel(errStopping)
	if g.wait(afterCancel) {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running == 0 {
		return nil
	}
	return fmt.Errorf("%d HTTP requests still run after they were cancelled", g.running)
}

// wait reports whether all inside left in time.
func (g *gate) wait(limit time.Duration) bool {
	select {
	case <-g.empty:
		return true
	case <-time.After(limit):
		return false
	}
}

// gated serves only between start and stop.
func (s *Server) gated(next endpoint) endpoint {
	return func(w http.ResponseWriter, r *http.Request) error {
		r, leave, err := s.gate.enter(r)
		if err != nil {
			return err
		}
		defer leave()
		return next(w, r)
	}
}
