package webhook

import (
	"log/slog"
	"sync"
	"time"
)

// turns logs hosts that go down and come back, a bounded number of lines a minute: where our own
// network is away all hosts are.
type turns struct {
	mu sync.Mutex
	// told is how many lines there were since begun, and leftOut how many there would have been.
	begun         time.Time
	told, leftOut int
}

// mostTurns are the lines of a minute.
const mostTurns = 100

// log says what became of the host with an answer. What the host wrote is left out: the line of the
// call that failed has it, where it may.
func (t *turns) log(l *slog.Logger, met outcome, a *answer, after time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if now.Sub(t.begun) >= time.Minute {
		t.begun, t.told = now, 0
	}
	if t.told >= mostTurns {
		t.leftOut++
		return
	}
	if t.leftOut > 0 {
		l = l.With("left_out", t.leftOut)
	}
	t.told, t.leftOut = t.told+1, 0
	if met == up {
		l.Info("a host is back, and calls to it are made again", "host", a.host, "after", after.Round(time.Second))
		return
	}
	why := *a
	why.text = ""
	l.Warn("a host is down: calls to it are put off, and no tries are used", "host", a.host, "error", why.Error())
}
