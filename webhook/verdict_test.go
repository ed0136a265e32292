package webhook

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
)

func TestWhatAnAnswerMeans(t *testing.T) {
	waits := []span{span(5 * time.Second), span(10 * time.Second), 0}
	refused := fmt.Errorf("dial: %w", errNotAllowed)
	tests := []struct {
		name    string
		answer  answer
		attempt int
		kind    stepwell.Kind
		after   time.Duration
	}{
		{"200", answer{status: 200}, 1, stepwell.Done, 0},
		{"204", answer{status: 204}, 4, stepwell.Done, 0},
		{"299", answer{status: 299}, 1, stepwell.Done, 0},
		{"a redirect", answer{status: 302}, 1, stepwell.Retry, 5 * time.Second},
		{"400", answer{status: 400}, 1, stepwell.Retry, 5 * time.Second},
		{"a status to stop on", answer{status: 410}, 1, stepwell.Dead, 0},
		{"500, second try", answer{status: 500}, 2, stepwell.Retry, 10 * time.Second},
		{"500, third try, no wait", answer{status: 500}, 3, stepwell.Retry, time.Millisecond},
		{"500, last try", answer{status: 500}, 4, stepwell.Dead, 0},
		{"500, beyond the last try", answer{status: 500}, 9, stepwell.Dead, 0},
		{"no answer", answer{err: errors.New("refused")}, 1, stepwell.Retry, 5 * time.Second},
		{"an address not allowed", answer{err: refused}, 1, stepwell.Dead, 0},
		{"Retry-After, longer", answer{status: 429, retryAfter: time.Hour}, 1, stepwell.Retry, time.Hour},
		{"Retry-After, shorter", answer{status: 429, retryAfter: time.Second}, 1, stepwell.Retry, 5 * time.Second},
		{"Retry-After, last try", answer{status: 429, retryAfter: time.Second}, 4, stepwell.Dead, 0},
	}
	for _, test := range tests {
		if v := stepwell.VerdictOf(judge(&test.answer, waits, []int{410}, test.attempt)); v.Kind != test.kind || v.After != test.after {
			t.Errorf("%s: %s after %s, want %s after %s", test.name, v.Kind, v.After, test.kind, test.after)
		}
	}
}

func TestRetryAfterIsReadInBothItsForms(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	at := func(d time.Duration) string { return now.Add(d).Format(http.TimeFormat) }
	tests := []struct {
		value, date string
		want        time.Duration
	}{
		{"", "", 0}, {"120", "", 2 * time.Minute}, {" 7 ", "", 7 * time.Second}, {"-1", "", 0}, {"soon", "", 0}, {"1.5", "", 0},
		{"100000", "", 24 * time.Hour}, {"99999999999999999999", "", 0},
		{at(time.Minute), "", time.Minute}, {at(-time.Minute), "", 0}, {at(48 * time.Hour), "", 24 * time.Hour},
		{at(time.Hour + time.Minute), at(time.Hour), time.Minute},
	}
	for _, test := range tests {
		h := http.Header{}
		h.Set("Retry-After", test.value)
		if test.date != "" {
			h.Set("Date", test.date)
		}
		if got := retryAfter(h, now); got != test.want {
			t.Errorf("%q with date %q: %s, want %s", test.value, test.date, got, test.want)
		}
	}
}

func TestSnoozesGrowFromASecondToFiveMinutesOrFifteenBesideManyAndAreSpreadAtFirst(t *testing.T) {
	tests := []struct {
		n      int
		least  time.Duration
		chance float64
		want   time.Duration
	}{
		{0, 0, 0.9, time.Second}, {1, 0, 0.9, 5 * time.Second}, {2, 0, 0, 15 * time.Second}, {3, 0, 0, time.Minute}, {4, 0, 0, 5 * time.Minute}, {10_000, 0, 0, 5 * time.Minute},
		{0, time.Minute, 0.5, 15 * time.Second}, {0, time.Minute, 0, 5 * time.Second}, {0, time.Minute, 0.999, time.Minute},
		{0, time.Hour, 0.5, 5 * time.Minute}, {0, time.Hour, 0, time.Minute}, {0, time.Hour, 0.999, 15 * time.Minute}, {0, 5 * time.Minute, 0.999, 5 * time.Minute}, {0, 5 * time.Minute, 0, 15 * time.Second}, {0, 3 * time.Second, 0.999, time.Second},
		{1, 3 * time.Second, 0.5, 5 * time.Second}, {1, 6 * time.Second, 0.5, 15 * time.Second}, {1, time.Minute, 0.5, time.Minute}, {1, time.Hour, 0, 15 * time.Minute}, {1, 2 * time.Minute, 0, 5 * time.Minute}, {4, 6 * time.Second, 0, 5 * time.Minute},
	}
	for _, test := range tests {
		if got := stepwell.VerdictOf(snooze(test.n, test.least, test.chance)).After; got != test.want {
			t.Errorf("after %d, at least %s, by chance %v: %s, want %s", test.n, test.least, test.chance, got, test.want)
		}
	}
}

func TestTheBeginningOfAnAnswerIsShownOnOneLineAsText(t *testing.T) {
	tests := []struct{ raw, want string }{
		{"  no\nsuch\torder ", "no such order"},
		{"caf\xc3", "caf"},
		{"a\x00\x1b[31mb", "a  [31mb"},
		{"\xff\xfe", ""},
		{"x\xffy", "x?y"},
		{strings.Repeat("é", 3), "ééé"},
	}
	for _, test := range tests {
		if got := shown([]byte(test.raw)); got != test.want {
			t.Errorf("%q: %q, want %q", test.raw, got, test.want)
		}
	}
}

func TestAFailureNamesHostAndStatusAndIsGroupedByThem(t *testing.T) {
	r := request{Method: "POST", URL: "https://API.example.com/secret-path?token=hidden"}
	a := &answer{method: "POST", host: r.host(), status: 503, text: "busy, order 17"}
	if got := a.Error(); got != "POST https://api.example.com: status 503: busy, order 17" {
		t.Error(got)
	}
	if got := (&answer{method: "POST", host: r.host()}).Error(); got != "POST https://api.example.com: status 0" {
		t.Errorf("of an answer with the status 000: %s", got)
	}
	if got := a.DeadGroup(); got != "https://api.example.com: status 503" {
		t.Error(got)
	}
	if got := (&answer{host: r.host(), err: errors.New("refused by 10.0.0.1:5")}).DeadGroup(); got != "https://api.example.com: no answer" {
		t.Error(got)
	}
}
