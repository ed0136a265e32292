package inbox_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/inbox"
	"github.com/stepwell/stepwell/internal/rabbit"
	"github.com/stepwell/stepwell/internal/task"
	"github.com/stepwell/stepwell/internal/testbroker"
)

// onRabbit makes a world on a RabbitMQ, with a real clock and queues of its own.
func onRabbit(t *testing.T, url string, wait time.Duration) *world {
	t.Helper()
	broker := rabbit.New(rabbit.Config{URLs: []string{url}})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- broker.Run(ctx) }()
	var w *world
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("broker: %v", err)
		}
		if w != nil {
			w.deleteQueues(url)
		}
	})
	w = newWorld(t, broker, fmt.Sprintf("inbox-test-%x", time.Now().UnixNano()), wait)
	return w
}

func (w *world) deleteQueues(url string) {
	conn, err := amqp.Dial(url)
	if err != nil {
		w.t.Errorf("delete queues: %v", err)
		return
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		w.t.Errorf("delete queues: %v", err)
		return
	}
	for _, q := range w.specs {
		if _, err := ch.QueueDelete(q.Name, false, false, false); err != nil {
			w.t.Errorf("delete %s: %v", q.Name, err)
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

func TestAConnectionCutWhileAHandlerRunsDoesNotCallItTwice(t *testing.T) {
	for _, version := range testbroker.Releases() {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			node := testbroker.StartRabbitMQ(t, version, testbroker.RabbitOptions{})
			w := onRabbit(t, node.URL, 0)
			w.instant(1)
			var c calls
			finish := make(chan struct{})
			r := w.start(func(ctx context.Context, m *stepwell.Message, _ inbox.Ticket) task.Outcome {
				c.add(m)
				<-finish
				if ctx.Err() != nil {
					t.Error("the handler's context ended with the connection")
				}
				return task.Settled
			})
			eventually(t, "handler runs", func() bool { return len(c.attempts()) == 1 })
			node.Ctl("close_all_connections", "cut by the test")
			eventually(t, "the message is there again", func() bool { return w.inbox.Status().InFlight == 2 })
			close(finish)
			eventually(t, "both are settled", func() bool { return w.inbox.Status().InFlight == 0 })
			w.instant(2)
			eventually(t, "the next message is handled", func() bool { return len(c.attempts()) == 2 })
			r.end()
			if w.owner.duplicates() != 1 {
				t.Errorf("%d duplicates counted, want 1", w.owner.duplicates())
			}
			w.empty()
		})
	}
}
