package inbox

import (
	"sync"
	"time"

	"github.com/stepwell/stepwell/internal/solo"
)

// turn is this Inbox's hold of the process's token, for one suspect at a time. Between the
// announcement of a suspect and its call there is no goroutine that could hold the token: the copy
// is in the broker, and may come to another process, or never. So a timer gives the token back.
type turn struct {
	token *solo.Token
	hold  solo.Turn

	mu sync.Mutex
	// waiting runs while the announced copy is in the broker; nil: it is not. mu guards this field
	// and those below.
	waiting *time.Timer
	// swapped is closed when that copy may be called: see announce.
	swapped <-chan struct{}
	// id is that of the suspect that has the token, and until the end of its trial.
	id    string
	until time.Time
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

// tries says until when the suspect is on trial; zero: it is no more.
func (t *turn) tries(until time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.until = until
}

// whose is the id of the suspect that has the token, and until when it is on trial; empty: none of
// this Inbox.
func (t *turn) whose() (id string, until time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.id, t.until
}

// await keeps the token until the announced copy comes, which calls resume, and gives it back after
// limit. swapped is for resume to return.
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
	t.id, t.until = "", time.Time{}
	t.mu.Unlock()
	t.token.Release(&t.hold)
}
