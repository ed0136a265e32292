package webhook

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
)

// answer is what came of one request. It is the error, too, that the dead set shows.
type answer struct {
	method, host string
	// status is 0 where no answer came; then err says why.
	status int
	err    error
	// unsent: there was nothing to send, and nobody was asked.
	unsent bool
	// redirect is where the answer leads to, without path and query; empty: nowhere.
	redirect string
	// text is the beginning of the answer's body, with nothing that cannot be shown.
	text string
	// retryAfter is how long the host asks to wait; 0: it does not.
	retryAfter time.Duration
}

const (
	// maxAnswer is how much of an answer is kept, in bytes.
	maxAnswer = 256
	// longestRetryAfter is the longest wait that a host may ask for.
	longestRetryAfter = 24 * time.Hour
	// shortestWait stands for a wait of nothing, for which [stepwell.RetryAfter] would take the
	// stream's policy.
	shortestWait = time.Millisecond
)

// Error says what was asked and what came, without the URL's path and query, which may hold
// secrets.
func (a *answer) Error() string {
	what := a.method + " " + a.host + ": "
	if a.err != nil { // no answer came; one may also have the status 000
		return what + a.err.Error()
	}
	what += "status " + strconv.Itoa(a.status)
	if a.redirect != "" {
		what += ", a redirect to " + a.redirect + ", which is not followed"
	}
	if a.text == "" {
		return what
	}
	return what + ": " + a.text
}

// Unwrap returns why no answer came.
func (a *answer) Unwrap() error { return a.err }

// DeadGroup is by what dead calls are grouped: the host and the status, whatever the answer says.
func (a *answer) DeadGroup() string {
	if a.status == 0 {
		return a.host + ": no answer"
	}
	return fmt.Sprintf("%s: status %d", a.host, a.status)
}

// ok says that the receiver has the call.
func (a *answer) ok() bool { return a.status/100 == 2 }

// outcome is what the answer says of its host, and not of this call. A call that was stopped, or
// never dialled, says nothing.
func (a *answer) outcome(stopped bool) outcome {
	switch {
	case stopped, a.unsent, errors.Is(a.err, errNotAllowed):
		return unknown
	case a.status == 0, a.status == http.StatusBadGateway, a.status == http.StatusServiceUnavailable, a.status == http.StatusGatewayTimeout:
		return down
	}
	return up
}

// judge is the verdict on an answer to the given attempt, the first of which is 1. Nil: the
// receiver has the call.
func judge(a *answer, waits []span, stopOn []int, attempt int) error {
	switch {
	case a.ok():
		return nil
	case errors.Is(a.err, errNotAllowed), slices.Contains(stopOn, a.status):
		return stepwell.DeadLetter(a)
	case attempt > len(waits):
		return stepwell.DeadLetter(fmt.Errorf("the last of %d tries: %w", len(waits)+1, a))
	}
	return stepwell.RetryAfter(a, max(time.Duration(waits[max(attempt, 1)-1]), a.retryAfter, shortestWait))
}

// longestSnooze is how long a call is put off at most.
const longestSnooze = 15 * time.Minute

// snoozes are for how long calls are put off, longer each time up to five minutes; the last is for
// a host for which tens of thousands wait. Each is one way through a queue: times between them
// would take several.
func snoozes() []time.Duration {
	return []time.Duration{time.Second, 5 * time.Second, 15 * time.Second, time.Minute, 5 * time.Minute, longestSnooze}
}

// spreads are the times over which calls are spread that are put off for the first time: each is
// two ways through a queue at most, where any time by chance would take up to seven, and a hop of
// 100,000 calls is what others notice.
func spreads() []time.Duration {
	var all []time.Duration
	for _, seconds := range []int{1, 5, 10, 15, 30, 60, 75, 120, 300, 360, 600, 900} {
		all = append(all, time.Duration(seconds)*time.Second)
	}
	return all
}

// snooze is how long a call waits that was put off n times before, as its host had no room: longer
// each time, or 100,000 calls to one host would come back each second. least is how long it should
// be at least, where many wait for the host. Those that are put off for the first time, at once,
// are spread over that time by chance, a number below 1, and stay spread from then on.
func snooze(n int, least time.Duration, chance float64) error {
	all := snoozes()
	least = min(least, longestSnooze)
	if n <= 0 {
		const tooSoon = 20 // of that time, a part so small would have most of them come back twice
		over := slices.DeleteFunc(spreads(), func(d time.Duration) bool { return d > max(least, time.Second) || d < least/tooSoon })
		return stepwell.Snooze(over[int(chance*float64(len(over)))])
	}
	longer, _ := slices.BinarySearch(all, least)
	return stepwell.Snooze(all[max(min(n, len(all)-2), longer)])
}

// retryAfter reads the header of that name: seconds, or a time that is compared with the answer's
// own Date, so that clocks need not agree. 0: there is none that can be read.
func retryAfter(h http.Header, now time.Time) time.Duration {
	value := strings.TrimSpace(h.Get("Retry-After"))
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return min(time.Duration(seconds)*time.Second, longestRetryAfter)
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return max(0, min(at.Sub(now), longestRetryAfter))
}
