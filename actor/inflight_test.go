package actor_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
)

// metric is the value of the first line of /metrics that begins so; -1: there is none.
func (r *running) metric(beginning string) float64 {
	r.t.Helper()
	_, answer := r.do("GET", "/metrics", "")
	for line := range strings.Lines(fmt.Sprint(answer["text"])) {
		if rest, ok := strings.CutPrefix(line, beginning); ok {
			var value float64
			if _, err := fmt.Sscan(rest[strings.LastIndex(rest, " ")+1:], &value); err == nil {
				return value
			}
		}
	}
	return -1
}

func TestCallsUnderWayAndMessagesInTheWindowAreCountedApart(t *testing.T) {
	t.Parallel()
	w := embeddedWorld(t)
	release := make(chan struct{})
	defer close(release)
	y := newTally()
	r := w.start(orders(func(ctx context.Context, m *stepwell.Message) error {
		if m.Attempt == 1 && strings.HasPrefix(string(m.Value), "bad") {
			return errFlaky
		}
		_ = y.handler(failsOnce)(ctx, m)
		<-release
		return nil
	}), settings{"CONCURRENCY": "3"})
	w.produce(several("bad", 2)...)
	eventually(t, "two retries run", func() bool { tried, _ := y.count(); return tried == 2 })
	w.produce(several("good", 12)...)
	eventually(t, "a first try runs beside them", func() bool { tried, _ := y.count(); return tried == 3 })
	eventually(t, "all are read", func() bool { return r.metric("stepwell_window_messages{") == 12 })
	if n := r.metric("stepwell_handler_inflight{"); n != 3 {
		t.Errorf("%v calls under way, want one first try and two retries", n)
	}
	if n := r.inFlight(); n != 14 {
		t.Errorf("the API says %d in flight, want twelve of the window and two retries", n)
	}
}
