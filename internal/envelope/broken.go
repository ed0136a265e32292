package envelope

import (
	"maps"
	"time"

	"github.com/stepwell/stepwell/internal/queue"
)

// Broken is m as it is put into the dead set when it cannot be decoded: unchanged, but for what the broker added to its headers
// and for the reason, error and time in f.
func Broken(m queue.Message, f Failure) queue.Message {
	kept := without(m.Headers, func(name string) bool {
		return name == hReason || name == hError || name == hDiedAt || name == hUnreadable
	})
	h := map[string]any{
		hReason: clean(f.Reason, maxShort),
		hError:  clean(f.Error, maxError),
		hDiedAt: timeValue(f.At),
	}
	maps.Copy(h, kept)
	fit(h, MaxHeaders, kept)
	return queue.Message{ID: m.ID, Headers: h, Body: m.Body}
}

// FailureOf reads what [Broken] wrote, as far as it is readable.
func FailureOf(m queue.Message) Failure {
	reason, _ := textOf(m.Headers[hReason])
	text, _ := textOf(m.Headers[hError])
	at, _ := timeOf(m.Headers[hDiedAt])
	return Failure{Reason: clean(reason, maxShort), Error: clean(text, maxError), At: at}
}

// Unreadable is m as it is sent around once more when its version is too new, and since when that is so.
func Unreadable(m queue.Message, now time.Time) (queue.Message, time.Time) {
	since, err := timeOf(m.Headers[hUnreadable])
	if err != nil || since.IsZero() || since.After(now) {
		since = now
	}
	kept := without(m.Headers, func(name string) bool { return name == hUnreadable })
	h := map[string]any{hUnreadable: timeValue(since)}
	maps.Copy(h, kept)
	return queue.Message{ID: m.ID, Headers: h, Body: m.Body}, since
}
