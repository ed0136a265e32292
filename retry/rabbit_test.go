package retry_test

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/stepwell/stepwell/internal/rabbit"
	"github.com/stepwell/stepwell/internal/testbroker"
	"github.com/stepwell/stepwell/retry"
)

// onRabbit makes a world on a RabbitMQ, with a real clock and queues of its own.
func onRabbit(t *testing.T, url string, delays retry.Budget) *world {
	t.Helper()
	broker := rabbit.New(rabbit.Config{URLs: []string{url}})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- broker.Run(ctx) }()
	w := &world{t: t, broker: broker, counts: &counts{}}
	w.cfg = retry.Config{
		App: fmt.Sprintf("retry-test-%x", time.Now().UnixNano()), Stream: "orders", Delays: delays, Broker: broker,
		Telemetry: w.counts, Logger: slog.New(slog.DiscardHandler),
	}
	w.renew()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("broker: %v", err)
		}
		for _, s := range w.retrier.Topology().Specs() {
			deleteQueues(t, url, s.Name)
		}
	})
	if err := w.retrier.Declare(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w
}

func deleteQueues(t *testing.T, url string, names ...string) {
	conn, err := amqp.Dial(url)
	if err != nil {
		t.Errorf("delete queues: %v", err)
		return
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		t.Errorf("delete queues: %v", err)
		return
	}
	for _, name := range names {
		if _, err := ch.QueueDelete(name, false, false, false); err != nil {
			t.Errorf("delete %s: %v", name, err)
		}
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(time.Minute)
	for !ok() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("never so: %s", what)
		}
	}
}

func TestEveryByteOfARecordSurvivesRealQueues(t *testing.T) {
	for _, node := range testbroker.RabbitMQs(t) {
		t.Run(node.Version, func(t *testing.T) {
			t.Parallel()
			w := onRabbit(t, node.URL, retry.Linear(100*time.Millisecond, 0, 3))
			var c calls
			r := w.start(c.failing(retry.Failure{Err: errAway, Stack: "main.go:1"}))
			records := oddRecords()
			for i, rec := range records {
				m := rec.message()
				m.ID, m.Origin.Offset = fmt.Sprint("odd:0:", i), int64(i)
				w.first(m, retry.Failure{Err: errAway})
			}
			eventually(t, "all dead", func() bool {
				n, err := w.broker.Depth(t.Context(), w.retrier.Topology().DeadSet)
				return err == nil && n == len(records)
			})
			r.end()
			if len(c.tries) != 3*len(records) {
				t.Errorf("%d calls, want %d", len(c.tries), 3*len(records))
			}
			for _, got := range c.tries {
				rec := records[got.Origin.Offset]
				if want := rec.message(); !got.Time.Equal(want.Time) ||
					!reflect.DeepEqual([]any{got.Key, got.Value, got.Headers}, []any{want.Key, want.Value, want.Headers}) {
					t.Errorf("attempt %d of %s changed", got.Attempt, rec.name)
				}
			}
		})
	}
}
