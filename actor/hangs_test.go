package actor_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/stepwell/stepwell"
)

// A person at night needs to know which message it is, and the rest of a stop is not to wait for
// it.
func TestAHangingCallOfAQueueIsNamedAndDoesNotKeepTheStopFunctionFromRunning(t *testing.T) {
	for name, hangsAt := range map[string]int{"at its first try": 1, "at its second try": 2} {
		t.Run(name, func(t *testing.T) {
			onOneRabbitMQ(t, func(t *testing.T, w *world) {
				queue, ch := w.foreign(t, "quorum")
				forever := make(chan struct{})
				t.Cleanup(func() { close(forever) })
				var stopped atomic.Bool
				log := &book{}
				app := orders(func(_ context.Context, m *stepwell.Message) error {
					if m.Attempt == hangsAt {
						<-forever
					}
					return errFlaky
				})
				app.Logger = log.logger()
				app.Stop = func(context.Context) error { stopped.Store(true); return nil }
				r := w.start(app, ofQueue(queue).with(settings{"RETRY_DELAY": "1s", "HANDLER_TIMEOUT": "500ms", "SHUTDOWN_TIMEOUT": "10s"}))
				r.ready()
				put(t, ch, queue, amqp.Publishing{MessageId: "order-17"})
				says := fmt.Sprintf("that of message order-17 (attempt %d)", hangsAt)
				eventually(t, "the probe names it", func() bool {
					_, _, text := r.health()
					return strings.Contains(text, says)
				})
				eventually(t, "the log names it", func() bool {
					return log.said("past its time-out", `"id":"order-17"`, fmt.Sprintf(`"attempt":%d`, hangsAt))
				})
				began := time.Now()
				r.stop()
				<-r.ended
				want := fmt.Sprintf("a handler did not return though it was cancelled; it has message order-17 (attempt %d)", hangsAt)
				if took := time.Since(began); !stopped.Load() || took > 10*time.Second || !strings.Contains(fmt.Sprint(r.err), want) {
					t.Errorf("the stop function ran: %v; after %v: %v", stopped.Load(), took, r.err)
				}
			})
		})
	}
}

func TestAStopWithLittleTimeNamesTheHandlerThatDoesNotReturn(t *testing.T) {
	for name, test := range map[string]struct {
		hangsAt int
		want    string
	}{
		"at its first try":  {1, "the first record there that is not done is "},
		"at its second try": {2, "a handler did not return though it was cancelled; it has message "},
	} {
		for _, budget := range []string{"3s", "5s"} {
			t.Run(name+", "+budget, func(t *testing.T) {
				onOneRabbitMQ(t, func(t *testing.T, w *world) {
					forever, hangs := make(chan struct{}), make(chan struct{})
					t.Cleanup(func() { close(forever) })
					r := w.start(orders(func(_ context.Context, m *stepwell.Message) error {
						if m.Attempt == test.hangsAt {
							close(hangs)
							<-forever
						}
						return errFlaky
					}), settings{"RETRY_DELAY": "500ms", "SHUTDOWN_TIMEOUT": budget})
					r.ready()
					w.produce(values("x")...)
					<-hangs
					r.stop()
					<-r.ended
					if said := fmt.Sprint(r.err); !strings.Contains(said, test.want+w.topic+":") || strings.Contains(said, "still runs") {
						t.Error(said)
					}
				})
			})
		}
	}
}
