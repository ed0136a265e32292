package actor

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/config"
	"github.com/stepwell/stepwell/embedded/memory"
	"github.com/stepwell/stepwell/internal/queue"
)

func TestARetiredStreamMayGoOnceItLookedEmptyForLongerThanAnyCallTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, after := &drain{}, 10*time.Minute
		look := func(empty bool) bool {
			d.note(empty, time.Now())
			_, mayGo := d.state(time.Now(), after)
			return mayGo
		}
		began := time.Now()
		for range 39 { // a look each 15 s
			if look(true) {
				t.Fatalf("it may go after %s", time.Since(began))
			}
			time.Sleep(15 * time.Second)
		}
		if look(false) {
			t.Error("it may go though a message is there")
		}
		if since, _ := d.state(time.Now(), after); !since.IsZero() {
			t.Errorf("it is empty since %s", since)
		}
		began = time.Now()
		for !look(true) {
			time.Sleep(15 * time.Second)
		}
		if took := time.Since(began); took != after {
			t.Errorf("it may go after %s, want %s", took, after)
		}
		if !d.goes() || d.goes() {
			t.Error("that is not told once")
		}
	})
}

func TestARetiredStreamDrainsForAsLongAsTheSlowestOfItsHandlersMayTake(t *testing.T) {
	const ahead = 8 * time.Minute
	for _, test := range []struct{ stream, channel, ahead, want time.Duration }{
		{time.Second, time.Second, time.Minute, quiet},
		{10 * time.Minute, time.Second, ahead, 20*time.Minute + ahead},
		{time.Second, 7 * time.Minute, ahead, 14*time.Minute + ahead},
		{time.Second, time.Second, ahead, 2*time.Second + ahead},
	} {
		of := func(d time.Duration) *line { return &line{cfg: config.Stream{HandlerTimeout: d}} }
		s := &stream{line: of(test.stream), channels: []*line{of(test.channel)}, ahead: test.ahead}
		if got := s.drainsFor(); got != test.want {
			t.Errorf("%s and %s: %s, want %s", test.stream, test.channel, got, test.want)
		}
	}
}

func TestARetiredStreamThatMayGoSaysSoInItsStatusTheProbeAndOnceInTheLog(t *testing.T) {
	t.Parallel()
	streamInBubble(t, Stream{Handler: func(context.Context, *stepwell.Message) error { return nil }}, func(b *bubble) {
		const probe, logged = ": it may leave the code", "a retired stream is empty: it may leave the code"
		says := func() string {
			synctest.Wait()
			status, err := json.Marshal(b.stream.Status(b.t.Context()))
			if err != nil {
				b.t.Fatal(err)
			}
			return string(status)
		}
		time.Sleep(10 * time.Minute) // it has looked, and metrics want depths each hour
		since := b.stream.Status(b.t.Context()).EmptySince
		if since.IsZero() {
			b.t.Fatalf("nobody knows that it is empty: %s", says())
		}
		time.Sleep(time.Until(since.Add(b.stream.drainsFor() - time.Millisecond)))
		if s := says(); !strings.Contains(s, `"empty_since":`) || strings.Contains(s, "may_go") {
			b.t.Errorf("a moment before it may go /v1/streams says %s", s)
		}
		if d := b.stream.check(nil).Detail; !strings.Contains(d, "its queues are empty since") || strings.Contains(d, probe) {
			b.t.Errorf("a moment before it may go /readyz says %s", d)
		}
		time.Sleep(time.Millisecond)
		if s := says(); !strings.Contains(s, `"may_go":true`) {
			b.t.Errorf("/v1/streams says %s", s)
		}
		if d := b.stream.check(nil).Detail; !strings.Contains(d, probe) {
			b.t.Errorf("/readyz says %s", d)
		}
		time.Sleep(5 * time.Hour)
		if n := strings.Count(b.log.String(), logged); n != 1 {
			b.t.Errorf("the log says it %d times: %s", n, b.log)
		}
	}, "STREAMS_ORDERS_RETIRED=true")
}

func TestARetiredStreamIsLookedAtHoweverRarelyMetricsWantDepths(t *testing.T) {
	t.Parallel()
	streamInBubble(t, Stream{Handler: func(context.Context, *stepwell.Message) error { return nil }}, func(b *bubble) {
		time.Sleep(10 * time.Minute) // metrics want depths each hour
		if b.stream.now().EmptySince.IsZero() {
			b.t.Fatal("nobody knows that it is empty")
		}
		b.die()
		time.Sleep(time.Minute)
		if now := b.stream.now(); !now.EmptySince.IsZero() || now.MayGo {
			b.t.Errorf("a minute after a message died it is empty since %s, and may go: %v", now.EmptySince, now.MayGo)
		}
	}, "STREAMS_ORDERS_RETIRED=true")
}

func TestAnAnswerThatShowsMessagesOfARetiredStreamDoesNotSayThatItMayGo(t *testing.T) {
	t.Parallel()
	streamInBubble(t, Stream{Handler: func(context.Context, *stepwell.Message) error { return nil }}, func(b *bubble) {
		time.Sleep(time.Hour)
		if !b.stream.now().MayGo {
			b.t.Fatal("it may not go")
		}
		b.die() // since the last look
		if s := b.stream.Status(b.t.Context()); !holds(&s) || !s.EmptySince.IsZero() || s.MayGo {
			b.t.Errorf("queues %v, empty since %s, may go: %v", s.Queues, s.EmptySince, s.MayGo)
		}
	}, "STREAMS_ORDERS_RETIRED=true")
}

// die has a message in the dead set of the stream.
func (b *bubble) die() {
	b.t.Helper()
	stored := make(chan error, 1)
	b.stream.broker.Publisher("test").Publish(b.t.Context(), b.stream.retries.Topology().DeadSet, queue.Message{ID: "dead"}, func(err error) { stored <- err })
	if err := <-stored; err != nil {
		b.t.Fatal(err)
	}
}

func TestARetiredStreamWithoutRetriesIsNotEmptyBeforeRabbitMQHasToldWhatIsLeft(t *testing.T) {
	look := func(l *line) bool {
		l.cfg.Retired = true
		s := &stream{line: l}
		s.lookDepths(t.Context())
		since, _ := s.drain.state(time.Now(), 0)
		return !since.IsZero()
	}
	away := &line{broker: memory.New()} // it is never run
	away.retries = &left{line: away}
	if look(away) {
		t.Error("it is empty, and nobody has looked")
	}
	none := &line{}
	none.retries = &left{line: none}
	if !look(none) {
		t.Error("without RabbitMQ it is not empty")
	}
}
