package envelope

import (
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/stepwell/stepwell/internal/queue"
)

// Wait is what is left of a wait for which there is no queue of its own. It travels with the
// message, from one delay queue to the next, and each takes off what it holds a message for: no
// clocks are compared.
type Wait struct {
	// Remaining is how long the message waits beyond the queue that it is in.
	Remaining time.Duration
	// Whole is all of the wait, from the try before it on.
	Whole time.Duration
}

// LongestWait is how long a wait may be that travels: 30 days.
const LongestWait = 30 * 24 * time.Hour

// WaitOf reads what is left of a message's wait; ok says that something is. What nobody can read is
// no wait: the message comes too early rather than never.
func WaitOf(m queue.Message) (w Wait, ok bool) {
	text, isText := textOf(m.Headers[hWait])
	if text == "" { // as nearly all
		return Wait{}, false
	}
	remaining, whole, two := strings.Cut(text, "/")
	w.Remaining, w.Whole = milliseconds(remaining), milliseconds(whole)
	if !isText || !two || w.Remaining <= 0 || w.Whole < w.Remaining {
		return Wait{}, false
	}
	return w, true
}

// On is the message with that wait left, and else as it is. Of no wait nothing is said.
func (w Wait) On(m queue.Message) queue.Message {
	m.Headers = maps.Clone(m.Headers)
	if delete(m.Headers, hWait); w.Remaining > 0 {
		m.Headers[hWait] = w.text()
	}
	return m
}

func (w Wait) text() string {
	return strconv.FormatInt(ceilMillis(w.Remaining), 10) + "/" + strconv.FormatInt(ceilMillis(w.Whole), 10)
}

// ceilMillis rounds up: a message never comes early.
func ceilMillis(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// milliseconds reads a number of them, at most as many as a wait may have; 0: it is none.
func milliseconds(text string) time.Duration {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return time.Duration(min(n, LongestWait.Milliseconds())) * time.Millisecond
}
