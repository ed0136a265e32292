package retry

import (
	"sync"
	"time"

	"github.com/stepwell/stepwell/internal/solo"
)

// turn is this Retrier's hold of the token, for one suspect at a time.
type turn struct {
	token *solo.Token
	hold  solo.Turn

	mu      sync.Mutex
	waiting *time.Timer // for the announced copy; nil: not
	swapped <-chan struct{}
	id      string // of the suspect
}

func newTurn(token *solo.Token) *turn {
	return &turn{token: token, hold: solo.Turn{Ready: func() {}}}
}

// begin takes the token for a suspect. It reports false when another one of the process has it.
func (t *turn) begin(id string) bool {
	if !t.token.Try(&t.hold) {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.id = id
	return true
}

// whose is the id of the suspect that has the token; empty: none of this Retrier.
func (t *turn) whose() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.id
}

// await keeps the token for resume, so long. swapped is closed when the copy is all there is of the
// message.
func (t *turn) await(limit time.Duration, swapped <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.swapped = swapped
	t.waiting = time.AfterFunc(limit, t.forgo)
}

// resume takes over the token that await keeps, if it does.
func (t *turn) resume() (swapped <-chan struct{}, kept bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waiting == nil {
		return nil, false
	}
	t.waiting.Stop()
	t.waiting = nil
	return t.swapped, true
}

// forgo gives the token back that await keeps, if it does.
func (t *turn) forgo() {
	if _, kept := t.resume(); kept {
		t.end()
	}
}

// end gives the token back.
func (t *turn) end() {
	t.mu.Lock()
	t.id = ""
	t.mu.Unlock()
	t.token.Release(&t.hold)
}
