package actor_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

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

func TestTheStreamsAPINamesTheRecordThatHoldsTheWindow(t *testing.T) {
	t.Parallel()
	w := embeddedWorld(t)
	blocked, release := make(chan stepwell.Origin, 1), make(chan struct{})
	r := w.start(orders(func(ctx context.Context, m *stepwell.Message) error {
		if string(m.Value) == "slow-0" {
			blocked <- m.Origin
			select {
			case <-release:
			case <-ctx.Done():
			}
		}
		return ctx.Err()
	}), nil)
	r.ready()
	if oldest, named := r.status("orders")["oldest"]; named {
		t.Errorf("nothing was read, and the oldest is %v", oldest)
	}
	w.produce(several("before", 20)...)
	w.produce(values("slow-0")...)
	record := <-blocked
	w.produce(values("slow-1", "slow-2", "slow-3", "slow-4", "slow-5")...)
	var oldest map[string]any
	eventually(t, "it holds five", func() bool {
		oldest, _ = r.status("orders")["oldest"].(map[string]any)
		return oldest["behind"] == 5.0
	})
	if oldest["topic"] != record.Topic || oldest["partition"] != float64(record.Partition) || oldest["offset"] != float64(record.Offset) {
		t.Errorf("the oldest is %v, want %+v", oldest, record)
	}
	since, err := time.Parse(time.RFC3339, fmt.Sprint(oldest["since"]))
	if age, ok := oldest["age_seconds"].(float64); err != nil || !ok || age < 0 || time.Since(since).Seconds() < age-0.001 {
		t.Errorf("the oldest is %v (%v), want its time and its age", oldest, err)
	}
	close(release)
	eventually(t, "nothing holds the window", func() bool { return r.status("orders")["oldest"] == nil })
}
