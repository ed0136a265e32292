package actor_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
	"github.com/stepwell/stepwell/embedded"
)

func TestAStopCallsWhatWasGatheredAtOnceAndCommitsIt(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		s := newSeen(t)
		app := batched(func(_ context.Context, b *stepwell.Batch) error {
			s.enter(b)()
			return nil
		})
		env := settings{"BATCH_WAIT": "10s", "BATCH_SIZE": "100"}
		r := w.start(app, env)
		w.produceTo3()
		eventually(t, "it is gathered", func() bool { return r.inFlight() == 3 })
		w.produce(values("3")...) // what came before it was handed out long since
		eventually(t, "more is read", func() bool { return r.inFlight() == 4 })
		began := time.Now()
		r.end()
		if took := time.Since(began); took > 8*time.Second {
			t.Errorf("the stop took %s", took)
		}
		if tried := s.flat(); len(tried) < 3 || w.committed() != int64(len(tried)) {
			t.Errorf("%d are committed, tried were %v", w.committed(), s.flat())
		}
	})
}

func TestAStopLetsABatchFinishAndHandsTheRestOn(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		s := newSeen(t)
		begun := make(chan struct{}, 100)
		slow := batched(func(ctx context.Context, b *stepwell.Batch) error {
			defer s.enter(b)()
			begun <- struct{}{}
			time.Sleep(time.Second)
			return ctx.Err()
		})
		env := settings{"BATCH_SIZE": "10", "SHUTDOWN_TIMEOUT": "20s"}
		r := w.start(slow, env)
		w.produce(ofOwnKeys(100)...)
		<-begun
		eventually(t, "all is read", func() bool { return r.inFlight() >= 80 })
		began := time.Now()
		r.end()
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("the stop took %s: it handled what it could have left to others", took)
		}
		next := w.start(batched(func(_ context.Context, b *stepwell.Batch) error {
			s.enter(b)()
			return nil
		}), env)
		eventually(t, "all is committed", func() bool { return w.committed() == 100 })
		next.end()
		if all := s.flat(); len(all) != 100 || len(slices.Compact(all)) != 100 {
			t.Errorf("%d tries of %d messages", len(all), 100)
		}
	})
}

func TestABatchThatASlowStopCancelsHasNoVerdict(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		begun := make(chan struct{}, 100)
		r := w.start(batched(func(ctx context.Context, b *stepwell.Batch) error {
			begun <- struct{}{}
			b.Done(b.Messages()[0])
			b.Fail(b.Messages()[1], errItem)
			<-ctx.Done()
			return ctx.Err()
		}), settings{"BATCH_SIZE": "3", "SHUTDOWN_TIMEOUT": "6s"})
		w.produceTo3()
		<-begun
		r.end()
		if n := w.committed(); n != 1 {
			t.Errorf("%d are committed, and one was marked as done", n)
		}
		s := newSeen(t)
		next := w.start(batched(func(_ context.Context, b *stepwell.Batch) error {
			s.enter(b)()
			return nil
		}), nil)
		eventually(t, "all is committed", func() bool { return w.committed() == 3 })
		next.end()
		if got, want := s.flat(), []string{"1#1", "2#1"}; !slices.Equal(got, want) {
			t.Errorf("tried again were %v, want %v", got, want)
		}
	})
}

// produceTo3 writes three messages of one key.
func (w *world) produceTo3() {
	w.t.Helper()
	var all []*kgo.Record
	for _, v := range []string{"0", "1", "2"} {
		all = append(all, values(v)...)
	}
	w.produce(all...)
}

// No message is in two batches at once, whoever has its partition, and all are handled.
func TestMembersThatComeAndGoHaveNoMessageInTwoBatchesAtOnce(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		s := newSeen(t)
		app := func() actor.App {
			return batched(func(_ context.Context, b *stepwell.Batch) error {
				defer s.enter(b)()
				time.Sleep(20 * time.Millisecond)
				return nil
			})
		}
		env := settings{"BATCH_SIZE": "10", "BATCH_WAIT": "50ms", "CONCURRENCY": "2"}
		stay := w.start(app(), env)
		stay.ready()
		const rounds, each = 4, 300
		for round := range rounds {
			var all []*kgo.Record
			for i := range each {
				all = append(all, &kgo.Record{Key: fmt.Appendf(nil, "k%d", i%23), Value: fmt.Appendf(nil, "%d.%d", round, i)})
			}
			w.produce(all...)
			guest := w.start(app(), env)
			guest.ready()
			guest.end()
		}
		eventually(t, "all is committed", func() bool { return w.committed() == rounds*each })
		stay.end()
		if all := s.flat(); len(all) != rounds*each || len(slices.Compact(all)) != rounds*each {
			t.Errorf("%d tries of %d messages", len(all), rounds*each)
		}
	})
}

func TestTheTimeOfABatchIsHandlerTimeout(t *testing.T) {
	t.Parallel()
	w := embeddedWorld(t)
	s := newSeen(t)
	w.produceTo3()
	r := w.start(batched(func(ctx context.Context, b *stepwell.Batch) error {
		s.enter(b)()
		if len(b.Messages()) == 1 {
			return nil
		}
		b.Done(b.Messages()[0])
		<-ctx.Done()
		return ctx.Err()
	}), settings{"BATCH_SIZE": "3", "HANDLER_TIMEOUT": "500ms"})
	want := []string{"0#1", "1#1", "1#2", "2#1", "2#2"}
	eventually(t, "what was not done is tried again", func() bool { return slices.Equal(s.flat(), want) })
	w.allCommitted(r)
}

func TestABatchThatCallsGoexitEndsTheActorAndNothingIsLost(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		s, healed := newSeen(t), newSeen(t)
		now := atomic.Pointer[seen]{}
		now.Store(s)
		app := batched(func(_ context.Context, b *stepwell.Batch) error {
			in := now.Load()
			in.enter(b)()
			if in == s {
				runtime.Goexit()
			}
			return nil
		})
		env := settings{"BATCH_SIZE": "10", "BATCH_WAIT": "100ms", "CONCURRENCY": "2"}
		w.produce(ofOwnKeys(100)...)
		r := w.start(app, env)
		select {
		case <-r.ended:
		case <-time.After(40 * time.Second):
			t.Fatal("the actor goes on")
		}
		if text := fmt.Sprint(r.err); !strings.Contains(text, "runtime.Goexit") || !strings.Contains(text, "in a batch of") {
			t.Errorf("the error says %q", text)
		}
		now.Store(healed)
		again := w.start(app, env)
		eventually(t, "all is committed", func() bool { return w.committed() == 100 })
		again.end()
		if got := len(slices.Compact(healed.flat())); got != 100 {
			t.Errorf("%d of 100 messages are called after it", got)
		}
	})
}

func TestAnErrorOfABatchIsOneLineOfTheLogAndEachMessageIsCounted(t *testing.T) {
	t.Parallel()
	w := embeddedWorld(t)
	exporter := tracetest.NewInMemoryExporter()
	app := batched(func(_ context.Context, b *stepwell.Batch) error {
		if len(b.Messages()) > 1 {
			return errItem
		}
		return nil
	})
	b := &book{}
	app.Logger = slog.New(slog.NewJSONHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug}))
	app.Telemetry = actor.Telemetry{Tracer: sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))}
	const n = 50
	records := ofOwnKeys(n)
	var origins []string
	for i, r := range records {
		origins = append(origins, fmt.Sprintf("4bf92f3577b34da6a3ce929d0e0e%04x", i+1))
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: "traceparent", Value: []byte("00-" + origins[i] + "-00f067aa0ba902b7-01")})
	}
	w.produce(records...)
	r := w.start(app, settings{"BATCH_SIZE": fmt.Sprint(n), "BATCH_WAIT": "5s"})
	eventually(t, "each is retried and counted", func() bool {
		_, answer := r.do("GET", "/metrics", "")
		text, _ := answer["text"].(string)
		return hasAll(text, fmt.Sprintf(`stepwell_verdict="retry"} %d`, n), fmt.Sprintf(`stepwell_verdict="done"} %d`, n),
			fmt.Sprintf(`stepwell_retries_total{stepwell_stream="orders"} %d`, n))
	})
	told := 0
	for _, line := range b.lines(t) {
		if line["msg"] == "a try failed" {
			told++
			if line["messages"] != float64(n) {
				t.Errorf("the line says %v", line)
			}
		}
	}
	if told != 1 {
		t.Errorf("%d lines tell of one error", told)
	}
	if lines, _ := b.about(t, "a message failed"); len(lines) != 1 || lines[0]["left_out"] != float64(n-1) {
		t.Errorf("the log says of %d messages: %v", n, lines)
	}
	spans := 0
	for _, span := range exporter.GetSpans() {
		if span.Name != "process orders" || span.Status.Description != errItem.Error() {
			continue
		}
		spans++
		for _, origin := range origins {
			if !linked(span, origin) {
				t.Errorf("the batch is not linked to %s", origin)
			}
		}
	}
	if spans != 1 {
		t.Errorf("%d spans of one batch", spans)
	}
}

func TestWhatABatchLetsDieIsTakenOverOneByOne(t *testing.T) {
	t.Parallel()
	w := embeddedWorld(t)
	var over atomic.Int64
	app := batched(func(_ context.Context, b *stepwell.Batch) error {
		for _, m := range b.Messages() {
			b.Fail(m, stepwell.DeadLetter(errItem))
		}
		return nil
	})
	orders := app.Streams["orders"]
	orders.OnDead = func(_ context.Context, m *stepwell.Message, err error) error {
		if !errors.Is(err, errItem) {
			t.Errorf("OnDead has %v", err)
		}
		over.Add(1)
		if string(m.Value) == "1" {
			return errFlaky
		}
		return nil
	}
	app.Streams["orders"] = orders
	w.produceTo3()
	r := w.start(app, settings{"BATCH_SIZE": "3"})
	if dead := r.deadCount(1); fmt.Sprint(dead[0]["value"]) != "1" {
		t.Errorf("dead: %v", dead[0])
	}
	w.allCommitted(r)
	if over.Load() != 3 {
		t.Errorf("%d calls of OnDead", over.Load())
	}
}

// What a batch lets die is taken over one by one: a stop may come in between. It has a bubble's
// clock, since a busy machine needs more than is left of two seconds.
func TestAnOnDeadIsNotBegunOnceItsTimeToStopIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := embeddedIn(t, embedded.Options{VirtualNetwork: true})
		begun := make(chan struct{}, 100)
		var late atomic.Int64
		app := batched(func(_ context.Context, b *stepwell.Batch) error { return stepwell.DeadLetter(errItem) })
		orders := app.Streams["orders"]
		orders.OnDead = func(ctx context.Context, _ *stepwell.Message, err error) error {
			if ctx.Err() != nil {
				late.Add(1)
			}
			begun <- struct{}{}
			<-ctx.Done()
			return err
		}
		app.Streams["orders"] = orders
		r := w.start(app, settings{"BATCH_SIZE": "3", "SHUTDOWN_TIMEOUT": "2s", "SERVER_ADDRESS": "off"})
		w.produceTo3()
		<-begun
		r.end()
		if n := late.Load(); n > 0 {
			t.Errorf("OnDead was called %d times after its context had ended", n)
		}
		if n := w.committed(); n > 0 {
			t.Errorf("%d are committed", n)
		}
	})
}

func TestABatchHandsMessagesOverToAChannel(t *testing.T) {
	for _, retries := range []string{"true", "false"} {
		t.Run("RETRY_ENABLED="+retries, func(t *testing.T) {
			t.Parallel()
			w := embeddedWorld(t)
			got := make(chan string, 10)
			app := batched(func(_ context.Context, b *stepwell.Batch) error {
				b.Fail(b.Messages()[1], stepwell.To("slow"))
				return nil
			})
			orders := app.Streams["orders"]
			orders.Channels = actor.Channels{"slow": {Handler: func(_ context.Context, m *stepwell.Message) error {
				got <- string(m.Value)
				return nil
			}}}
			app.Streams["orders"] = orders
			w.produceTo3()
			r := w.start(app, settings{"BATCH_SIZE": "3", "STREAMS_ORDERS_RETRY_ENABLED": retries})
			eventually(t, "the channel has one", func() bool { return len(got) > 0 })
			if v := <-got; v != "1" {
				t.Errorf("the channel has %s", v)
			}
			w.allCommitted(r)
			if len(got) > 0 {
				t.Errorf("the channel also has %s", <-got)
			}
		})
	}
}

func TestAPausedStreamCallsNoBatch(t *testing.T) {
	t.Parallel()
	w := embeddedWorld(t)
	s := newSeen(t)
	r := w.start(batched(func(_ context.Context, b *stepwell.Batch) error {
		s.enter(b)()
		return nil
	}), settings{"BATCH_SIZE": "3", "BATCH_WAIT": "2s"})
	r.ready()
	w.produce(values("0")...)
	eventually(t, "it is gathered", func() bool { return r.inFlight() == 1 })
	if status, answer := r.do("POST", "/v1/streams/orders/pause", ""); status != 200 {
		t.Fatalf("pause: %d %v", status, answer)
	}
	w.produce(values("1", "2")...)
	always(t, "nothing is called", 3*time.Second, func() bool { return len(s.flat()) == 0 })
	if oldest, _ := r.status("orders")["oldest"].(map[string]any); oldest["offset"] != float64(0) {
		t.Errorf("what waits longest is %v", oldest)
	}
	if status, answer := r.do("POST", "/v1/streams/orders/resume", ""); status != 200 {
		t.Fatalf("resume: %d %v", status, answer)
	}
	eventually(t, "all are handled", func() bool { return len(s.flat()) == 3 })
	w.allCommitted(r)
}

func TestABatchOfLargeMessagesDoesNotWaitForMoreThanTheWindowHolds(t *testing.T) {
	t.Parallel()
	w := embeddedWorld(t)
	s := newSeen(t)
	var all []*kgo.Record
	for i := range 40 {
		all = append(all, &kgo.Record{Key: fmt.Appendf(nil, "%d", i), Value: slices.Concat(fmt.Appendf(nil, "%d ", i), make([]byte, 100<<10))})
	}
	w.produce(all...)
	began := time.Now()
	w.start(batched(func(_ context.Context, b *stepwell.Batch) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.calls = append(s.calls, make([]string, len(b.Messages())))
		return nil
	}), settings{"WINDOW_BYTES": "500KiB", "BATCH_WAIT": "10s"})
	eventually(t, "all are handled", func() bool { return len(s.flat()) >= 36 })
	if took := time.Since(began); took > 9*time.Second {
		t.Errorf("it took %s: batches waited for messages for which there was no room", took)
	}
}

func TestWithoutQueuesABatchTriesInPlaceAndMayDrop(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		s := newSeen(t)
		handle := func(_ context.Context, b *stepwell.Batch) error {
			s.enter(b)()
			for _, m := range b.Messages() {
				if m.Attempt < 3 && string(m.Value) == "1" {
					b.Fail(m, errItem)
				}
			}
			return nil
		}
		env := settings{"RETRY_ENABLED": "false", "BATCH_SIZE": "3", "BATCH_WAIT": "3s"}
		r := w.start(batched(handle), env)
		w.produceTo3()
		want := []string{"0#1", "1#1", "1#2", "1#3", "2#1"}
		eventually(t, "it is tried until it is done", func() bool { return slices.Equal(s.flat(), want) && w.committed() == 3 })
		r.end()
		env["ON_FAILURE"] = "drop"
		r = w.start(batched(handle), env)
		w.produceTo3()
		eventually(t, "it is dropped", func() bool { return w.committed() == 6 })
		r.end()
		if got := s.flat(); len(got) != len(want)+3 {
			t.Errorf("tries %v", got)
		}
	})
}
