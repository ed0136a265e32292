package actor

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/embedded"
	"github.com/stepwell/stepwell/internal/task"
	"github.com/stepwell/stepwell/streams"
)

// bubble is an actor on a false clock, with one partition to read.
type bubble struct {
	t       *testing.T
	brokers *embedded.Brokers
	actor   *Actor
	stream  *stream
	log     *lines
}

// lines is a log that can be read while it is written.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// inBubble runs the test. The handler sleeps for as long as the record's value says, with an
// exclamation mark behind it whatever its context says.
func inBubble(t *testing.T, test func(b *bubble), env ...string) {
	t.Helper()
	streamInBubble(t, Stream{Handler: func(ctx context.Context, m *stepwell.Message) error {
		text, deaf := strings.CutSuffix(string(m.Value), "!")
		if deaf {
			ctx = context.Background()
		}
		d, err := time.ParseDuration(text)
		if err == nil {
			task.Sleep(ctx, d)
		}
		return err
	}}, test, env...)
}

// streamInBubble runs the test with a stream of its own.
func streamInBubble(t *testing.T, orders Stream, test func(b *bubble), env ...string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bubble{t: t, log: &lines{}, brokers: embedded.New(embedded.Options{Topics: map[string]int32{"orders.v1": 1}, VirtualNetwork: true})}
		app := App{Name: "bubble", Brokers: b.brokers, Logger: slog.New(slog.NewTextHandler(b.log, nil)), Streams: Streams{"orders": orders}}
		cfg, err := Load(app, append(env, "STREAMS_ORDERS_TOPICS=orders.v1", "SERVER_ADDRESS=off", "TELEMETRY_DEPTH_INTERVAL=1h", "CONCURRENCY=1"))
		if err != nil {
			t.Fatal(err)
		}
		a, err := New(cfg, app)
		if err != nil {
			t.Fatal(err)
		}
		b.actor, b.stream = a, a.streams[0]
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- a.Run(ctx) }()
		test(b)
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// handle has a record handled for so long.
func (b *bubble) handle(long ...string) {
	b.t.Helper()
	for _, d := range long {
		if err := b.brokers.Produce(b.t.Context(), &kgo.Record{Topic: "orders.v1", Value: []byte(d)}); err != nil {
			b.t.Fatal(err)
		}
	}
}

// after waits and then wants the stream to be stuck or not.
func (b *bubble) after(d time.Duration, stuck bool) {
	b.t.Helper()
	time.Sleep(d)
	synctest.Wait()
	if c, shot := b.stream.check(nil), b.actor.snapshot().Streams[b.stream.id]; c.Stuck != stuck || shot.Stuck != stuck {
		b.t.Errorf("after %v: stuck is %v in /readyz and %v as a metric", d, c.Stuck, shot.Stuck)
	}
	if s := b.stream.now(); s.Stuck != stuck || (s.StuckBecause != "") != stuck {
		b.t.Errorf("after %v: stuck is %v, lag %v, last progress %v ago", d, s.Stuck, s.Lag, time.Since(s.LastProgress))
	}
}

func TestAStreamIsStuckWhenNothingIsSettledForFiveMinutesThoughThereIsLag(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.handle("9m", "4m", "1s")
		b.after(4*time.Minute, false)
		b.after(2*time.Minute, true) // nothing was ever settled
		b.after(4*time.Minute, false)
		b.after(10*time.Minute, false)
		if s := b.stream.now(); s.Lag == nil || *s.Lag != 0 {
			b.t.Errorf("lag %v in the end", s.Lag)
		}
	}, "HANDLER_TIMEOUT=10m")
}

func TestTimeWithoutWorkOrInAPauseMakesNoStreamStuck(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.handle("1s")
		b.after(time.Hour, false)
		b.handle("9m")
		b.after(30*time.Second, false) // the first record after an idle hour
		b.after(4*time.Minute, false)
		b.after(90*time.Second, true)
		b.after(time.Hour, false)
		b.stream.Pause("alice")
		b.handle("9m")
		b.after(time.Hour, false)
		b.stream.Resume()
		b.after(4*time.Minute, false)
		b.after(2*time.Minute, true)
	}, "HANDLER_TIMEOUT=10m")
}

func TestAHandlerThatRunsPastTwiceItsTimeOutMakesItsStreamStuck(t *testing.T) {
	inBubble(t, func(b *bubble) {
		stubborn := make(chan struct{})
		b.stream.dispatch.calls.Handler = func(context.Context, *stepwell.Message) error { <-stubborn; return nil }
		b.handle("")
		b.after(90*time.Second, false)
		b.after(45*time.Second, true)
		if c := b.stream.check(nil); !strings.Contains(c.Detail, ", stuck: a call has run for 2m15s, and HANDLER_TIMEOUT is 1m0s") {
			b.t.Errorf("%q does not say why", c.Detail)
		}
		if why := b.stream.now().StuckBecause; why != "a call has run for 2m15s, and HANDLER_TIMEOUT is 1m0s" {
			b.t.Errorf("the status says %q", why)
		}
		close(stubborn)
		b.after(time.Second, false)
	}, "HANDLER_TIMEOUT=1m")
}

func TestAChannelWhoseHandlerRunsPastTwiceItsTimeOutSaysForHowLong(t *testing.T) {
	streamInBubble(t, Stream{
		Handler:  func(context.Context, *stepwell.Message) error { return stepwell.To("slow") },
		Channels: Channels{"slow": {Handler: func(context.Context, *stepwell.Message) error { return nil }}},
	}, func(b *bubble) {
		stubborn := make(chan struct{}) // of the bubble
		b.stream.channels[0].dispatch.calls.Handler = func(context.Context, *stepwell.Message) error { <-stubborn; return nil }
		b.handle("")
		time.Sleep(2*time.Minute + 30*time.Second)
		const why = "a call has run for 2m30s, and HANDLER_TIMEOUT is 1m0s: that of message orders.v1:0:0@slow (attempt 1)"
		if c := b.stream.check(nil); !c.Stuck || !strings.Contains(c.Detail, ", channel slow, stuck: "+why) {
			b.t.Errorf("%q does not say why", c.Detail)
		}
		if s := b.stream.now().Channels[0]; !s.Stuck || s.StuckBecause != why {
			b.t.Errorf("the status says %+v", s)
		}
		close(stubborn)
	}, "HANDLER_TIMEOUT=1m")
}

func TestAStuckStreamNamesItsOldestMessage(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.handle("1s", "9m", "1s", "1s")
		b.after(4*time.Minute, false)
		if c := b.stream.check(nil); strings.Contains(c.Detail, "oldest") {
			b.t.Errorf("%q, and nothing is wrong", c.Detail)
		}
		b.after(2*time.Minute, true)
		if c := b.stream.check(nil); !strings.HasSuffix(c.Detail, ", stuck: there is work, and none was done for 5m45s, oldest message orders.v1:0:1, for 5m59s") {
			b.t.Errorf("%q does not name the oldest message", c.Detail)
		}
		o := b.stream.now().Oldest
		if age := 6*time.Minute - time.Second; o == nil || o.Behind != 2 || o.AgeSeconds > age.Seconds() || o.AgeSeconds < age.Seconds()-0.5 || time.Since(o.Since).Round(time.Millisecond).Seconds() != o.AgeSeconds {
			b.t.Errorf("%+v, want an age of %v", o, age)
		}
	}, "HANDLER_TIMEOUT=10m")
}

func TestTheEndOfATransactionIsNoLagThatMakesAStreamStuck(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.handle("1s")
		b.after(time.Minute, false)
		s := b.stream.now()
		of := streams.Status{Partitions: 1, Lag: 1} // as Kafka shows it
		now := time.Now()
		if b.stream.progress.idleFor(s, behind(of), now); b.stream.progress.idleFor(s, behind(of), now.Add(time.Hour)) != 0 {
			b.t.Error("an offset without a record counts as work")
		}
		of.Lag = 2
		if b.stream.progress.idleFor(s, behind(of), now); b.stream.progress.idleFor(s, behind(of), now.Add(time.Hour)) != time.Hour {
			b.t.Error("records that are not read do not count as work")
		}
	})
}

func TestACallThatRunsPastItsTimeoutIsLoggedOnceWithTheMessageThatWaits(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *bubble) {
		says := func(n int, words ...string) {
			b.t.Helper()
			synctest.Wait()
			got := 0
			for line := range strings.Lines(b.log.String()) {
				if strings.Contains(line, "past its time-out") {
					got++
					for _, w := range append(words, "level=WARN", "stream=orders") {
						if !strings.Contains(line, w) {
							b.t.Errorf("%q is not in %s", w, line)
						}
					}
				}
			}
			if got != n {
				b.t.Errorf("logged %d times, not %d:\n%s", got, n, b.log)
			}
		}
		b.handle("10s", "40s!")
		time.Sleep(30 * time.Second)
		says(0)
		time.Sleep(18 * time.Second)
		says(1, "oldest=orders.v1:0:1")
		b.handle("1s", "40s!")
		time.Sleep(2 * time.Minute)
		says(2)
	}, "HANDLER_TIMEOUT=20s")
}
