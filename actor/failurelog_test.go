package actor_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
	"github.com/stepwell/stepwell/embedded"
)

// inTime runs an actor on a false clock, gives it n messages, lets so much time pass, stops it, and
// returns its log.
func inTime(t *testing.T, h stepwell.Handler, level slog.Level, n int, passes time.Duration, env ...string) *book {
	t.Helper()
	b := &book{}
	synctest.Test(t, func(t *testing.T) {
		brokers := embedded.New(embedded.Options{Topics: map[string]int32{"orders.v1": 1}, VirtualNetwork: true})
		app := orders(h)
		app.Name, app.Brokers, app.Logger = "told", brokers, slog.New(slog.NewJSONHandler(b, &slog.HandlerOptions{Level: level}))
		cfg, err := actor.Load(app, append(env, "STREAMS_ORDERS_TOPICS=orders.v1", "SERVER_ADDRESS=off", "HANDLER_TIMEOUT=1m"))
		if err != nil {
			t.Fatal(err)
		}
		a, err := actor.New(cfg, app)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- a.Run(ctx) }()
		for i := range n {
			if err := brokers.Produce(ctx, &kgo.Record{Topic: "orders.v1", Value: []byte(fmt.Sprint(i))}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(passes)
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return b
}

// about are the lines of this message, and for how many events they stand.
func (b *book) about(t testing.TB, message string) (lines []map[string]any, events int) {
	t.Helper()
	for _, l := range b.lines(t) {
		if strings.HasPrefix(fmt.Sprint(l["msg"]), message) {
			lines = append(lines, l)
			left, _ := l["left_out"].(float64)
			events += 1 + int(left)
		}
	}
	return lines, events
}

func TestAMessageThatDiesOrIsDroppedIsTold(t *testing.T) {
	t.Parallel()
	refuse := func(_ context.Context, m *stepwell.Message) error {
		if string(m.Value) == "1" {
			panic("oh")
		}
		return fmt.Errorf("charge: %w", stepwell.DeadLetter(errFlaky))
	}
	tests := []struct {
		name, message, panicked string
		env                     []string
	}{
		{"dies", "a message died", stepwell.ReasonExhausted, []string{"RETRY_COUNT=0"}},
		{"dropped", "a failed message was dropped", stepwell.ReasonExhausted, []string{"RETRY_ENABLED=false", "ON_FAILURE=drop"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := inTime(t, refuse, slog.LevelInfo, 2, time.Second, test.env...)
			lines, events := b.about(t, test.message)
			if len(lines) != 2 || events != 2 {
				t.Fatalf("%d lines for %d events in %s", len(lines), events, b)
			}
			for _, l := range lines {
				want := map[string]any{"level": "WARN", "stream": "orders", "id": "orders.v1:0:0", "attempts": 1.0,
					"reason": stepwell.ReasonDeadLetter, "error_type": "*errors.errorString", "error": "charge: the service is away"}
				if l["id"] == "orders.v1:0:1" {
					want["id"], want["reason"], want["error_type"], want["error"] = "orders.v1:0:1", test.panicked, "panic", "panic: oh"
					if !strings.Contains(fmt.Sprint(l["stack"]), "failurelog_test.go") {
						t.Errorf("the stack is %v", l["stack"])
					}
				}
				for k, v := range want {
					if l[k] != v {
						t.Errorf("%s is %v, want %v", k, l[k], v)
					}
				}
			}
		})
	}
}

func TestAFloodOfDeathsIsALineASecondThatCountsThemAll(t *testing.T) {
	t.Parallel()
	const n = 500
	refuse := func(context.Context, *stepwell.Message) error {
		time.Sleep(100 * time.Millisecond)
		return stepwell.DeadLetter(errFlaky)
	}
	b := inTime(t, refuse, slog.LevelInfo, n, time.Minute, "CONCURRENCY=10", "ORDER=none")
	lines, events := b.about(t, "a message died")
	if events != n || len(lines) > 8 {
		t.Errorf("%d lines for %d deaths of %d within five seconds", len(lines), events, n)
	}
}

// A panic among errors that come all the time is what somebody must see.
func TestTheFirstFailureOfEachTypeIsToldWhateverElseFailsInThatSecond(t *testing.T) {
	t.Parallel()
	b := inTime(t, func(_ context.Context, m *stepwell.Message) error {
		if m.Value[len(m.Value)-1] == '7' {
			panic("oh")
		}
		return errFlaky
	}, slog.LevelInfo, 20, 2*time.Second, "RETRY_COUNT=1", "RETRY_DELAY=10ms")
	for _, message := range []string{"a message died", "a message failed"} {
		lines, events := b.about(t, message)
		panics := slices.DeleteFunc(slices.Clone(lines), func(l map[string]any) bool { return l["error_type"] != "panic" })
		if events < 20 || len(panics) == 0 || panics[0]["error"] != "panic: oh" {
			t.Errorf("of panics %q has %v, among %d lines for %d events", message, panics, len(lines), events)
		}
	}
}

// partner is an error of one type for all of those it calls, and names the one.
type partner string

func (p partner) Error() string     { return "call of " + string(p) }
func (p partner) DeadGroup() string { return string(p) }

func TestAnErrorThatNamesItsCauseIsNotHiddenByOthersOfItsType(t *testing.T) {
	t.Parallel()
	b := inTime(t, func(_ context.Context, m *stepwell.Message) error {
		if string(m.Value) == "17" {
			return partner("b.example.com")
		}
		return partner("a.example.com")
	}, slog.LevelInfo, 20, 2*time.Second, "RETRY_COUNT=1", "RETRY_DELAY=10ms")
	for _, message := range []string{"a message died", "a message failed"} {
		lines, events := b.about(t, message)
		if events < 20 || len(lines) > 4 || !slices.ContainsFunc(lines, func(l map[string]any) bool { return l["id"] == "orders.v1:0:17" && l["left_out"] == nil }) {
			t.Errorf("%q: %d lines for %d events, none of which is that of b: %v", message, len(lines), events, lines)
		}
	}
}

func TestTriesThatFailAreToldAtOnceAndThenOnceAMinute(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, level string
		env         []string
	}{
		{"in place", "WARN", []string{"RETRY_ENABLED=false"}},
		{"through the queues", "INFO", []string{"RETRY_COUNT=600", "RETRY_DELAY=1s"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			calls := 0
			b := inTime(t, func(context.Context, *stepwell.Message) error { calls++; return errFlaky }, slog.LevelInfo, 1, 10*time.Minute, test.env...)
			lines, events := b.about(t, "a message failed")
			if calls < 20 || events != calls || len(lines) < 9 || len(lines) > 12 || lines[0]["level"] != test.level || lines[0]["error"] != errFlaky.Error() {
				t.Errorf("%d lines for %d of %d failures in ten minutes, the first: %v", len(lines), events, calls, lines[0])
			}
		})
	}
}

func TestWhatIsADeadLetterIsNotSaidToBeTriedAgain(t *testing.T) {
	t.Parallel()
	b := inTime(t, func(_ context.Context, m *stepwell.Message) error {
		if string(m.Value) == "0" {
			return stepwell.DeadLetter(errFlaky)
		}
		return errFlaky
	}, slog.LevelInfo, 2, time.Minute, "RETRY_COUNT=1", "RETRY_DELAY=1s")
	for message, want := range map[string]int{"a message failed for good": 1, "a message failed, and is tried again": 2, "a message died": 2} {
		if _, events := b.about(t, message); events != want {
			t.Errorf("%q is said of %d events, and not of %d", message, events, want)
		}
	}
}

func TestALineThatIsWrittenLaterSaysWhenTheFailureWas(t *testing.T) {
	t.Parallel()
	b := inTime(t, func(context.Context, *stepwell.Message) error { return errFlaky }, slog.LevelInfo, 1, 5*time.Minute, "RETRY_COUNT=2", "RETRY_DELAY=1s")
	lines, _ := b.about(t, "a message failed")
	if len(lines) != 2 || lines[0]["at"] != nil {
		t.Fatalf("lines of three failures: %v", lines)
	}
	written, err1 := time.Parse(time.RFC3339, fmt.Sprint(lines[1]["time"]))
	at, err2 := time.Parse(time.RFC3339, fmt.Sprint(lines[1]["at"]))
	if late := written.Sub(at); err1 != nil || err2 != nil || late < 50*time.Second || late > time.Minute {
		t.Errorf("the last failure was %s before its line: %v", late, lines[1])
	}
}

func TestAtDebugEachTryIsToldAndWhyAMessageWasSkipped(t *testing.T) {
	t.Parallel()
	b := inTime(t, func(_ context.Context, m *stepwell.Message) error {
		if string(m.Value) == "1" {
			return stepwell.Skip("a test order")
		}
		return errFlaky
	}, slog.LevelDebug, 2, time.Minute, "RETRY_COUNT=3", "RETRY_DELAY=1s")
	if lines, _ := b.about(t, "a try failed"); len(lines) != 4 || lines[3]["attempts"] != 4.0 || lines[3]["verdict"] != "retry" {
		t.Errorf("tries: %v", lines)
	}
	if lines, _ := b.about(t, "a message was skipped"); len(lines) != 1 || lines[0]["reason"] != "a test order" || lines[0]["id"] != "orders.v1:0:1" {
		t.Errorf("skips: %v", lines)
	}
}

func TestWhereErrorsCanHoldPayloadTheLogHasTheirTypeAlone(t *testing.T) {
	t.Parallel()
	b := inTime(t, func(_ context.Context, m *stepwell.Message) error {
		switch string(m.Value) {
		case "1":
			panic("card 4111")
		case "2":
			return stepwell.Skip("card 4111")
		}
		return errors.New("card 4111")
	}, slog.LevelDebug, 3, time.Minute, "LOG_ERRORS=type", "RETRY_COUNT=1", "RETRY_DELAY=1s")
	lines, events := b.about(t, "a message died")
	if events != 2 || strings.Contains(b.String(), "4111") || lines[0]["error_type"] == nil {
		t.Errorf("%s", b)
	}
}
