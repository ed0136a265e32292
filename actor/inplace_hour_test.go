package actor

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/config"
	"github.com/stepwell/stepwell/internal/call"
	"github.com/stepwell/stepwell/retry"
)

// diary has the calls of a bubble as "value attempt after", of which after is since the first one.
type diary struct {
	mu    sync.Mutex
	began time.Time
	calls []string
}

func (d *diary) note(m *stepwell.Message) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.began.IsZero() {
		d.began = time.Now()
	}
	d.calls = append(d.calls, fmt.Sprintf("%s %d %s", m.Value, m.Attempt, time.Since(d.began).Round(time.Minute)))
}

func (d *diary) all() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.calls)
}

// of has the bubble call h, and notes its calls.
func (d *diary) of(b *bubble, h stepwell.Handler) {
	b.stream.dispatch.calls.Handler = func(ctx context.Context, m *stepwell.Message) error {
		d.note(m)
		return h(ctx, m)
	}
}

func TestWaitsOfAHandlersOwnCountIntoTheHourInPlaceAndWhatIsBeyondItGoesThroughQueues(t *testing.T) {
	t.Parallel()
	errBusy := errors.New("busy")
	tests := []struct {
		name    string
		verdict func(m *stepwell.Message) error // of the first message of the key
		want    []string
	}{
		{
			"RetryAfter", func(*stepwell.Message) error { return stepwell.RetryAfter(errBusy, 25*time.Minute) },
			[]string{"a 1 0s", "a 2 25m0s", "a 3 50m0s", "b 1 50m0s", "a 4 1h15m0s", "a 5 1h40m0s"},
		},
		{
			"RetryAfter beyond the hour at once", func(m *stepwell.Message) error {
				return stepwell.RetryAfter(errBusy, 2*time.Hour/time.Duration(m.Attempt))
			},
			[]string{"a 1 0s", "b 1 0s", "a 2 2h0m0s", "a 3 3h0m0s", "a 4 3h40m0s", "a 5 4h10m0s"},
		},
		{
			"RetryAfter, then the policy's waits", func(m *stepwell.Message) error {
				if m.Attempt == 1 {
					return stepwell.RetryAfter(errBusy, 31*time.Minute)
				}
				return errBusy
			},
			[]string{"a 1 0s", "a 2 31m0s", "a 3 41m0s", "a 4 51m0s", "b 1 51m0s", "a 5 1h1m0s"},
		},
		{
			"Snooze, again and again", func(m *stepwell.Message) error {
				if m.Snoozes < 4 {
					return stepwell.Snooze(20 * time.Minute)
				}
				return nil
			},
			[]string{"a 1 0s", "a 1 20m0s", "a 1 40m0s", "a 1 1h0m0s", "b 1 1h0m0s", "a 1 1h20m0s"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(b *bubble) {
				var d diary
				d.of(b, func(_ context.Context, m *stepwell.Message) error {
					if string(m.Value) == "a" {
						return test.verdict(m)
					}
					return nil
				})
				for _, v := range []string{"a", "b"} {
					if err := b.brokers.Produce(b.t.Context(), &kgo.Record{Topic: "orders.v1", Key: []byte("k"), Value: []byte(v)}); err != nil {
						b.t.Fatal(err)
					}
				}
				time.Sleep(6 * time.Hour)
				synctest.Wait()
				if got := d.all(); !slices.Equal(got, test.want) {
					b.t.Errorf("calls %q, want %q", got, test.want)
				}
				log := b.log.String()
				if n := strings.Count(log, "a message rests no longer in place"); n != 1 {
					b.t.Errorf("said %d times, want once:\n%s", n, log)
				}
			}, "RETRY_IN_PLACE=all", "RETRY_COUNT=4", "RETRY_DELAY=10m", "HANDLER_TIMEOUT=1m", "KAFKA_SESSION_TIMEOUT=45s")
		})
	}
}

func TestAMessageOfABatchHasAnHourInPlaceTooAndThenItsLaneGoesOn(t *testing.T) {
	t.Parallel()
	var d diary
	fails := func(_ context.Context, b *stepwell.Batch) error {
		for _, m := range b.Messages() {
			d.note(m)
			if string(m.Value) == "a" {
				b.Fail(m, stepwell.RetryAfter(errors.New("busy"), 25*time.Minute))
			}
		}
		return nil
	}
	streamInBubble(t, Stream{Batch: fails}, func(b *bubble) {
		for _, v := range []string{"a", "b"} {
			if err := b.brokers.Produce(b.t.Context(), &kgo.Record{Topic: "orders.v1", Key: []byte("k"), Value: []byte(v)}); err != nil {
				b.t.Fatal(err)
			}
			time.Sleep(55 * time.Minute)
		}
		time.Sleep(6 * time.Hour)
		synctest.Wait()
		if got, want := d.all(), []string{"a 1 0s", "a 2 25m0s", "a 3 50m0s", "b 1 55m0s", "a 4 1h15m0s", "a 5 1h40m0s"}; !slices.Equal(got, want) {
			b.t.Errorf("calls %q, want %q", got, want)
		}
		if log := b.log.String(); strings.Count(log, "a message rests no longer in place") != 1 {
			b.t.Errorf("not said once:\n%s", log)
		}
	}, "RETRY_IN_PLACE=all", "RETRY_COUNT=4", "RETRY_DELAY=10m", "HANDLER_TIMEOUT=1m", "KAFKA_SESSION_TIMEOUT=45s", "BATCH_SIZE=5", "BATCH_WAIT=1s")
}

func TestAMessageThatRestsMakesNoStreamStuckAndSaysUntilWhenItDoes(t *testing.T) {
	inBubble(t, func(b *bubble) {
		var d diary
		hang := make(chan struct{})
		d.of(b, func(_ context.Context, m *stepwell.Message) error {
			switch string(m.Value) {
			case "bad":
				return errors.New("no")
			case "hangs":
				<-hang
			}
			return nil
		})
		produce := func(key, value string) {
			if err := b.brokers.Produce(b.t.Context(), &kgo.Record{Topic: "orders.v1", Key: []byte(key), Value: []byte(value)}); err != nil {
				b.t.Fatal(err)
			}
		}
		produce("k", "bad")
		produce("k", "waits")
		for range 10 { // more than there are partitions
			produce("other", "good")
		}
		b.after(14*time.Minute, false)
		s := b.stream.now()
		if o := s.Oldest; o == nil || o.Offset != 0 || time.Until(o.NextTry).Round(time.Minute) != time.Minute || s.Resting != 1 {
			b.t.Errorf("the status is %+v, the oldest %+v", s, o)
		}
		if c := b.stream.check(nil); !strings.Contains(c.Detail, "1 messages rest until they are tried again, oldest message orders.v1:0:0, for 14m0s, rests until ") {
			b.t.Errorf("/readyz?verbose says %q", c.Detail)
		}
		produce("third", "hangs") // beside it
		b.after(4*time.Minute, false)
		b.after(5*time.Minute, true)
		close(hang)
		b.after(time.Minute, false)
		b.after(15*time.Minute, false)
	}, "RETRY_IN_PLACE=all", "RETRY_COUNT=3", "RETRY_DELAY=15m", "HANDLER_TIMEOUT=10m", "CONCURRENCY=2")
}

func TestTheStartSaysUpToWhichRateOthersGoOn(t *testing.T) {
	for _, test := range []struct {
		env  string
		want string
	}{
		{"RETRY_IN_PLACE=0", "in_place=none"},
		{"RETRY_IN_PLACE=all RETRY_DELAY=15m RETRY_COUNT=4", `in_place="all waits, 1h0m0s: others go on at up to 277 messages a second (WINDOW_SPAN 1000000 ÷ 1h0m0s)"`},
		{"RETRY_IN_PLACE=2 RETRY_DELAY=5s RETRY_STEP=5s WINDOW_SPAN=30000", `in_place="the first 2 waits, 15s: others go on at up to 2000 messages a second (WINDOW_SPAN 30000 ÷ 15s)"`},
		{"RETRY_IN_PLACE=all RETRY_COUNT=0", `in_place="all waits"`},
	} {
		inBubble(t, func(b *bubble) {
			time.Sleep(time.Minute)
			if !strings.Contains(b.log.String(), test.want) {
				b.t.Errorf("%s: %q is not in\n%s", test.env, test.want, b.log)
			}
		}, strings.Fields(test.env)...)
	}
}

func TestTheStartSaysWhatABatchThatRestsHoldsBack(t *testing.T) {
	p := inPlace{budget: retry.Linear(5*time.Second, 0, 3), waits: math.MaxInt}
	for batches, want := range map[int]string{
		1: "all waits, 15s: nothing else is called meanwhile",
		2: "all waits, 15s: one of 2 batches at once waits, others go on at up to 1333 messages a second (WINDOW_MESSAGES 10000 × 2 ÷ 15s)",
		4: "all waits, 15s: one of 4 batches at once waits, others go on at up to 2000 messages a second (WINDOW_SPAN 30000 ÷ 15s)",
	} {
		if got := p.says(bound{"WINDOW_SPAN", 30_000}, bound{"WINDOW_MESSAGES", 10_000}, batches); got != want {
			t.Errorf("%d at once: %q, want %q", batches, got, want)
		}
	}
}

func TestWhereAMessageWaitsIsUpToTheTryTheVerdictAndTheTimeItHasRested(t *testing.T) {
	three := retry.Linear(10*time.Minute, 0, 3)
	some, all := inPlace{budget: three, waits: 2}, inPlace{budget: three, waits: math.MaxInt}
	answered := func(attempt int, a call.Answer) *failed {
		return &failed{message: stepwell.Message{Attempt: attempt}, answer: &a}
	}
	fails := func(attempt int) *failed { return answered(attempt, call.Answer{Kind: stepwell.Retry}) }
	asks := func(attempt int, d time.Duration) *failed {
		return answered(attempt, call.Answer{Kind: stepwell.Retry, After: d})
	}
	snoozes := func(attempt int) *failed {
		return answered(attempt, call.Answer{Kind: stepwell.Snoozed, After: time.Minute})
	}
	dead := answered(1, call.Answer{Kind: stepwell.Dead, Reason: stepwell.ReasonDeadLetter})
	for _, test := range []struct {
		name  string
		how   inPlace
		f     *failed
		spent time.Duration
		what  next
		wait  time.Duration
	}{
		{"the first failure", some, fails(1), 0, rests, 10 * time.Minute},
		{"the last wait in place", some, fails(2), 0, rests, 10 * time.Minute},
		{"the one after it", some, fails(3), 0, leaves, 0},
		{"nothing is in place", inPlace{budget: three}, fails(1), 0, leaves, 0},
		{"no wait is left", all, fails(4), 0, dies, 0},
		{"a dead letter", all, dead, 0, dies, 0},
		{"a wait of the handler's", all, asks(1, time.Hour), 0, rests, time.Hour},
		{"one that is too long", all, asks(1, time.Hour+1), 0, tooLong, 0},
		{"one with no try left", all, asks(4, time.Second), 0, dies, 0},
		{"as long as it fits", all, fails(3), 50 * time.Minute, rests, 10 * time.Minute},
		{"longer than it fits", all, fails(3), 50*time.Minute + 1, tooLong, 0},
		{"a snooze of the last try", all, snoozes(4), 0, rests, time.Minute},
		{"a snooze after the waits in place", some, snoozes(3), 0, leaves, 0},
		{"a snooze beyond the hour", all, snoozes(1), config.MostRest, tooLong, 0},
	} {
		if what, wait := test.how.after(test.f, test.spent, 1); what != test.what || wait != test.wait {
			t.Errorf("%s: %v for %v, want %v for %v", test.name, what, wait, test.what, test.wait)
		}
	}
	jittered := inPlace{budget: three, jitter: 0.5, waits: 1}
	for _, drawn := range []float64{0, 0.4, 1} {
		if _, wait := jittered.after(fails(1), 0, drawn); wait != 10*time.Minute-time.Duration(drawn*float64(5*time.Minute)) {
			t.Errorf("with jitter, of which %v was drawn, it rests for %v", drawn, wait)
		}
		if _, wait := jittered.after(asks(1, time.Minute), 0, drawn); wait != time.Minute {
			t.Errorf("the handler asked for 1m, and it rests for %v", wait)
		}
	}
}
