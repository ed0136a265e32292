package queuetest

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell/internal/queue"
)

func declaring() map[string]func(*testing.T, *world) {
	return map[string]func(*testing.T, *world){
		"DeclaringAgainChangesNothing": func(t *testing.T, w *world) {
			w.declare(t)
			w.fill(t, w.dead, 0, 3)
			w.declare(t)
			w.depthIs(t, w.dead, 3)
		},
		"AQueueWithOtherArgumentsIsNamed": func(t *testing.T, w *world) {
			w.declare(t)
			specs := w.specs()
			// RabbitMQ answers 406, which closes the channel: the queue must be usable all the
			// same.
			specs[0].TTL *= 2
			if err := w.Declare(within(t), specs); err == nil || !strings.Contains(err.Error(), w.delay) {
				t.Errorf("Declare: %v", err)
			}
			w.fill(t, w.delay, 0, 1)
		},
		"AQueueWithoutATargetIsRefused": func(t *testing.T, w *world) {
			w.declare(t)
			if err := w.Declare(within(t), []queue.Spec{{Name: w.instant, Kind: queue.Instant}}); err == nil {
				t.Error("no error")
			}
		},
	}
}

func publishing() map[string]func(*testing.T, *world) {
	return map[string]func(*testing.T, *world){
		"WhatIsPublishedComesOutAsItWas":      comesOutAsItWas,
		"WhoPublishedMayChangeHisBytes":       bytesAreNotShared,
		"OrderIsKept":                         orderIsKept,
		"AMessageWaitsForAQueueThatIsMissing": waitsForItsQueue,
		"AnEndedContextIsReportedOnce":        endedContext,
		"WhatIsTooLargeIsReported":            tooLarge,
		"ADelayIsNeverShortAndKeepsTheOrder":  delayIsNeverShort,
	}
}

// isFresh says that the message was published to its queue and not handed out before.
func isFresh(d queue.Delivery) bool { return d.From == "" && !d.Redelivered && d.Returns == 0 }

// What is parked comes back byte for byte, with its headers' types: nil is not empty, and text need
// not be UTF-8.
func comesOutAsItWas(t *testing.T, w *world) {
	w.declare(t)
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	sent := queue.Message{
		ID:   "a:0:1",
		Body: []byte{0, 0xff, 'x'},
		Headers: map[string]any{
			"nil": nil, "yes": true, "no": false, "low": int64(-1 << 62), "zero": int64(0), "text": "ä\x00\xff", "bytes": []byte{0, 0xff},
			"empty": []byte{}, "list": []any{"a", int64(1), nil, []byte("b"), true},
		},
	}
	// By itself, since two times are equal that DeepEqual tells apart.
	dated := queue.Message{ID: "dated", Headers: map[string]any{"at": at}}
	told := make(chan error, 2)
	for _, m := range []queue.Message{sent, dated} {
		w.Publisher("test").Publish(t.Context(), w.instant, m, func(err error) { told <- err })
		if err := await(t, told, "the confirm"); err != nil {
			t.Fatal(err)
		}
	}
	all := w.consume(t, w.instant, 10).take(t, 2)
	got := all[0]
	if got.ID != sent.ID || !slices.Equal(got.Body, sent.Body) || got.Queue != w.instant || !isFresh(got) {
		t.Errorf("came out as %+v", got)
	}
	for name, want := range sent.Headers {
		if have, ok := got.Headers[name]; !ok || !reflect.DeepEqual(have, want) {
			t.Errorf("header %s came out as %#v, not %#v", name, have, want)
		}
	}
	if len(got.Headers) != len(sent.Headers) {
		t.Errorf("%d headers came out, not %d: %v", len(got.Headers), len(sent.Headers), got.Headers)
	}
	if have, ok := all[1].Headers["at"].(time.Time); !ok || !have.Equal(at) || len(all[1].Body) != 0 {
		t.Errorf("came out as %+v", all[1])
	}
}

// Neither who publishes nor who was handed a message can change what is in the queue.
func bytesAreNotShared(t *testing.T, w *world) {
	w.declare(t)
	k := w.consume(t, w.instant, 1)
	body := []byte("as it was")
	told := make(chan error, 1)
	w.Publisher("test").Publish(t.Context(), w.instant, queue.Message{ID: "1", Body: body, Headers: map[string]any{"h": "v"}}, func(err error) { told <- err })
	if err := await(t, told, "the confirm"); err != nil {
		t.Fatal(err)
	}
	body[0] = '!'
	for range 2 {
		d := k.take(t, 1)[0]
		if string(d.Body) != "as it was" || d.Headers["h"] != "v" {
			t.Fatalf("%s, %v", d.Body, d.Headers)
		}
		d.Body[0], d.Headers["h"] = '!', "!"
		d.Release()
	}
}

// One publisher and one consumer see the same order, with many confirms in flight.
func orderIsKept(t *testing.T, w *world) {
	w.declare(t)
	w.fill(t, w.instant, 0, 1000)
	k := w.consume(t, w.instant, 50)
	for i := range 1000 {
		d := k.take(t, 1)
		are(t, d, i)
		d[0].Ack()
	}
	k.stop()
	if err := await(t, k.returned, "the end of Consume"); err != nil {
		t.Error(err)
	}
	w.depthIs(t, w.instant, 0)
}

// To an exchange without a queue RabbitMQ confirms, and drops the message.
func waitsForItsQueue(t *testing.T, w *world) {
	told := make(chan error, 1)
	w.Publisher("test").Publish(t.Context(), w.instant, numbered(1), func(err error) { told <- err })
	nothing(t, told, "told before there is a queue")
	w.declare(t)
	if err := await(t, told, "the confirm"); err != nil {
		t.Error(err)
	}
	w.depthIs(t, w.instant, 1)
}

// done is called exactly once, also for a message whose context had ended before it was published.
func endedContext(t *testing.T, w *world) {
	w.declare(t)
	ctx, cancel := context.WithCancel(t.Context())
	told := make(chan error, 2)
	p := w.Publisher("test")
	p.Publish(ctx, w.instant+".missing", numbered(1), func(err error) { told <- err })
	cancel()
	if err := await(t, told, "the end of a wait"); !errors.Is(err, context.Canceled) {
		t.Errorf("told %v", err)
	}
	p.Publish(ctx, w.instant, numbered(2), func(err error) { told <- err })
	if err := await(t, told, "what became of it"); !errors.Is(err, context.Canceled) {
		t.Errorf("told %v", err)
	}
	nothing(t, told, "told twice")
	w.depthIs(t, w.instant, 0)
}

// A message that is too large fails by itself: what is published after it on the same publisher is
// not touched.
func tooLarge(t *testing.T, w *world) {
	w.declare(t)
	told := make(chan error, 1)
	p := w.Publisher("test")
	p.Publish(t.Context(), w.instant, queue.Message{ID: "1", Body: make([]byte, w.place.MaxMessageSize+1)}, func(err error) { told <- err })
	if err := await(t, told, "the refusal"); !errors.Is(err, queue.ErrTooLarge) {
		t.Errorf("told %v", err)
	}
	w.fill(t, w.instant, 2, 3)
	w.depthIs(t, w.instant, 1)
}

// Twice, since the second round meets a queue that has expired messages before.
func delayIsNeverShort(t *testing.T, w *world) {
	w.declare(t)
	k := w.consume(t, w.instant, 100)
	for round := range 2 {
		began := time.Now()
		w.fill(t, w.delay, 50*round, 50*round+50)
		all := k.take(t, 50)
		if waited := time.Since(began); waited < delay {
			t.Errorf("the last came after %v", waited)
		}
		are(t, all, upTo(50*round, 50*round+50)...)
		for _, d := range all {
			if d.From != w.delay {
				t.Errorf("%s came from %q", d.ID, d.From)
			}
			d.Ack()
		}
	}
	w.depthIs(t, w.delay, 0)
}
