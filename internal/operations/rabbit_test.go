package operations

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/stepwell/stepwell/internal/rabbit"
	"github.com/stepwell/stepwell/internal/records"
	"github.com/stepwell/stepwell/internal/testbroker"
)

// onRabbit calls test with a store of its own in one of the RabbitMQs.
func onRabbit(t *testing.T, test func(t *testing.T, s Store)) {
	t.Helper()
	t.Parallel()
	for _, node := range testbroker.Sample(t, testbroker.RabbitMQs(t)) {
		t.Run(node.Version, func(t *testing.T) {
			t.Parallel()
			b := rabbit.New(rabbit.Config{URLs: []string{node.URL}, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
			background(t, b.Run)
			log := fmt.Sprintf("operations-%d", rand.Uint64())
			store := records.New(records.Config{Broker: b, Log: log, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), Large: Large()})
			stop := background(t, store.Run)
			t.Cleanup(func() { stop(); remove(t, node.URL, log) })
			if err := store.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
			test(t, NewShared(store))
		})
	}
}

// remove deletes a queue, as an operator might.
func remove(t testing.TB, url, name string) {
	t.Helper()
	conn, err := amqp.Dial(url)
	if err != nil {
		t.Errorf("delete %s: %v", name, err)
		return
	}
	defer func() { _ = conn.Close() }()
	ch, err := conn.Channel()
	if err == nil {
		_, err = ch.QueueDelete(name, false, false, false)
	}
	if err != nil {
		t.Errorf("delete %s: %v", name, err)
	}
}

func TestAStoreInRabbitMQKeepsARequestOnceAndEachChangeSeesTheOneBefore(t *testing.T) {
	onRabbit(t, keeps)
}

func TestTheLargestSelectionIsKeptInRabbitMQ(t *testing.T) { onRabbit(t, keepsLarge) }
