// Package browser holds the console against a real browser: Chromium, by the DevTools protocol.
// It is a module of its own, so that no program of a user has that in its go.sum.
package browser

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
	"github.com/stepwell/stepwell/embedded"
)

// world is an actor on embedded brokers, whose messages die as their values say until it is mended.
type world struct {
	t       testing.TB
	base    string
	mended  atomic.Bool
	handled atomic.Int64
	last    atomic.Pointer[stepwell.Message] // that was handled
	gate    chan struct{}                    // each message waits for one of it; nil: none waits
	brokers *embedded.Brokers
	stop    func() // stops the actor, and waits until it has
}

// order is what the handler of a world does with a record.
func (w *world) order(ctx context.Context, m *stepwell.Message) error {
	why, _, _ := strings.Cut(string(m.Key), ":")
	switch {
	case w.mended.Load() || why == "fine":
		if w.gate != nil {
			select {
			case <-w.gate:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		w.last.Store(m)
		w.handled.Add(1)
		return nil
	case why == "refused":
		return stepwell.DeadLetter(fmt.Errorf("order %s: the card was refused: insufficient funds", m.ID))
	case why == "slow":
		return stepwell.To("slow")
	case why == "text":
		return stepwell.DeadLetter(errors.New(string(m.Value)))
	}
	return stepwell.DeadLetter(fmt.Errorf("charge order %s: POST http://bank.test/charge: status 503", m.ID))
}

func (w *world) slow(context.Context, *stepwell.Message) error {
	if w.mended.Load() {
		w.handled.Add(1)
		return nil
	}
	return stepwell.DeadLetter(errors.New("the archive is full"))
}

// start runs an actor until the test ends. Settings are as environment variables.
func start(t testing.TB, settings ...string) *world {
	t.Helper()
	w := &world{t: t, brokers: embedded.New(embedded.Options{Topics: map[string]int32{"orders.v1": 1}})}
	app := actor.App{Name: "shipping", Brokers: w.brokers, Streams: actor.Streams{
		"orders": {Handler: w.order, Channels: actor.Channels{"slow": {Handler: w.slow}}},
	}}
	cfg, err := actor.Load(app, append([]string{"SERVER_ADDRESS=127.0.0.1:0", "STREAMS_ORDERS_TOPICS=orders.v1", "RETRY_COUNT=1", "RETRY_DELAY=100ms", "LOG_LEVEL=error"}, settings...))
	if err != nil {
		t.Fatal(err)
	}
	a, err := actor.New(cfg, app)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	w.stop = sync.OnceFunc(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(w.stop)
	w.eventually("the server listens", func() bool { return a.Address() != "" })
	w.base = "http://127.0.0.1" + a.Address()[strings.LastIndex(a.Address(), ":"):] // also where it listens on all addresses
	w.eventually("the actor is ready", func() bool {
		resp, err := http.Get(w.base + "/readyz")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	return w
}

// mend has so many messages handled, and more once the returned function is called.
func (w *world) mend(first int) (goOn func()) {
	w.gate = make(chan struct{}, first)
	for range first {
		w.gate <- struct{}{}
	}
	goOn = sync.OnceFunc(func() { close(w.gate) })
	w.t.Cleanup(goOn) // before the actor is stopped, which waits for what it handles
	w.mended.Store(true)
	return goOn
}

// record is one whose death its key decides: why, a colon, and anything.
func record(key, value string, headers ...kgo.RecordHeader) *kgo.Record {
	return &kgo.Record{Topic: "orders.v1", Key: []byte(key), Value: []byte(value), Headers: headers}
}

// die produces records, and waits until so many are dead.
func (w *world) die(dead int, records ...*kgo.Record) {
	w.t.Helper()
	if err := w.brokers.Produce(w.t.Context(), records...); err != nil {
		w.t.Fatal(err)
	}
	w.eventually("all are dead", func() bool { return w.dead("") == dead })
}

func (w *world) dead(channel string) int {
	name := "shipping.orders.dead_set"
	if channel != "" {
		name = "shipping.orders.channel." + channel + ".dead_set"
	}
	depth, err := w.brokers.Queues().Depth(w.t.Context(), name)
	if err != nil {
		return -1
	}
	return depth
}

func (w *world) eventually(what string, ok func() bool) {
	w.t.Helper()
	limit := time.After(30 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-limit:
			w.t.Fatalf("never came true: %s", what)
		}
	}
}
