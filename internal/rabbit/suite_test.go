package rabbit

import (
	"log/slog"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/queue/queuetest"
	"github.com/stepwell/stepwell/internal/testbroker"
)

func TestQueuesInRabbitMQKeepThePromisesOfQueues(t *testing.T) {
	t.Parallel()
	const most = 64 << 10
	for _, node := range testbroker.RabbitMQs(t) {
		t.Run(node.Version, func(t *testing.T) {
			t.Parallel()
			queuetest.Run(t, func(t *testing.T, test func(*testing.T, queuetest.Place)) {
				t.Parallel()
				test(t, queuetest.Place{
					Broker:         New(Config{URLs: []string{node.URL}, MaxMessageSize: most, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}),
					MaxMessageSize: most,
					Delete:         func(name string) { deleteQueue(t, node.URL, name) },
					Exchange: func(t *testing.T, name string) func(string, queue.Message) bool {
						makeExchange(t, node.URL, name)
						t.Cleanup(func() { deleteExchange(t, node.URL, name) })
						return func(key string, m queue.Message) bool {
							return routed(t, node.URL, name, key, amqp.Publishing{MessageId: m.ID, Body: m.Body})
						}
					},
				})
			})
		})
	}
}
