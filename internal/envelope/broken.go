package envelope

import (
	"maps"
	"strings"
	"time"

	"github.com/stepwell/stepwell/internal/queue"
)

// Broken is m as it is put into the dead set when it cannot be decoded: unchanged, but for what the
// broker added to its headers, and for a header with the reason, time and error in f, which comes
// on top of [MaxHeaders]; the zero f has none.
func Broken(m queue.Message, f Failure) queue.Message {
	// A reason and a time from an earlier burial are replaced, not added to.
	kept := without(m.Headers, func(name string) bool { return name == hBuried || name == hWaits })
	fit(kept, kept)
	if f == (Failure{}) {
		return queue.Message{ID: m.ID, Headers: kept, Body: m.Body}
	}
	b := appendEscaped(nil, clean(f.Reason, maxShort))
	b = append(appendInstant(append(b, ' '), f.At), ' ')
	h := map[string]any{hBuried: string(append(b, abridged(f.Error, maxError)...))}
	maps.Copy(h, kept)
	return queue.Message{ID: m.ID, Headers: h, Body: m.Body}
}

// buriedOf reads what [Broken] wrote.
func buriedOf(m queue.Message) (f Failure, ok bool) {
	text, _ := textOf(m.Headers[hBuried])
	reason, rest, _ := strings.Cut(text, " ")
	at, problem, ok := strings.Cut(rest, " ")
	if !ok {
		return f, false
	}
	when, err := instant(at)
	reason, _ = unescape(reason)
	return Failure{Reason: clean(reason, maxShort), Error: abridged(problem, maxError), At: when}, err == nil
}

// FailureOf says of what a dead message died, as far as that is readable, and when.
func FailureOf(m queue.Message) Failure {
	if f, ok := buriedOf(m); ok {
		return f
	}
	var e Envelope
	head, _ := textOf(m.Headers[hHead])
	if _, err := e.readHead(head); err != nil {
		return Failure{}
	}
	text, _ := textOf(m.Headers[hError])
	return Failure{Reason: clean(e.Failure.Reason, maxShort), Error: abridged(text, maxError), At: e.DiedAt}
}

// Unreadable is m as it is sent around once more when its version is too new, and since when that
// is so.
func Unreadable(m queue.Message, now time.Time) (queue.Message, time.Time) {
	since, ok := timeOf(m.Headers[hWaits])
	// A time to come is that of a clock that was wrong, or of somebody's making: without this the
	// message would be sent around for ever.
	if !ok || since.After(now) {
		since = now
	}
	kept := without(m.Headers, func(name string) bool { return name == hWaits })
	h := map[string]any{hWaits: string(appendInstant(nil, since))}
	maps.Copy(h, kept)
	return queue.Message{ID: m.ID, Headers: h, Body: m.Body}, since
}
