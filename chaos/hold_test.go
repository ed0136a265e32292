package chaos

import (
	"context"
	"sync"
)

// hold holds up whoever waits, while it is stored.
type hold struct {
	mu   sync.Mutex
	over chan struct{} // nil: nobody is held up
}

func (h *hold) Store(on bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case on && h.over == nil:
		h.over = make(chan struct{})
	case !on && h.over != nil:
		close(h.over)
		h.over = nil
	}
}

func (h *hold) Load() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.over != nil
}

func (h *hold) wait(ctx context.Context) {
	h.mu.Lock()
	over := h.over
	h.mu.Unlock()
	if over == nil {
		return
	}
	select {
	case <-over:
	case <-ctx.Done():
	}
}
