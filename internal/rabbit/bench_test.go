package rabbit

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/testbroker"
)

// benchmarkOn gives a broker and a queue on each RabbitMQ.
func benchmarkOn(b *testing.B, bench func(b *testing.B, broker *Broker, name string)) {
	for _, node := range testbroker.RabbitMQs(b) {
		b.Run(node.Version, func(b *testing.B) {
			broker := New(Config{URLs: []string{node.URL}})
			ctx, cancel := context.WithCancel(b.Context())
			var running sync.WaitGroup
			running.Go(func() { _ = broker.Run(ctx) })
			name := "rabbit-bench.dead_set"
			if err := broker.Declare(ctx, []queue.Spec{{Name: name, Kind: queue.DeadSet}}); err != nil {
				b.Fatal(err)
			}
			bench(b, broker, name)
			cancel()
			running.Wait()
			remove(b, node.URL, name)
		})
	}
}

func remove(b *testing.B, url, name string) {
	conn, err := amqp.Dial(url)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err == nil {
		_, err = ch.QueueDelete(name, false, false, false)
	}
	if err != nil {
		b.Fatal(err)
	}
}

func fill(b *testing.B, broker *Broker, name string) {
	body := make([]byte, 1024)
	p := broker.Publisher("bench")
	var stored sync.WaitGroup
	slots := make(chan struct{}, 5000)
	for range b.N {
		slots <- struct{}{}
		stored.Add(1)
		p.Publish(b.Context(), name, queue.Message{ID: "id", Body: body}, func(error) { <-slots; stored.Done() })
	}
	stored.Wait()
}

func BenchmarkPublishConfirmed(b *testing.B) {
	benchmarkOn(b, func(b *testing.B, broker *Broker, name string) {
		b.ReportAllocs()
		b.ResetTimer()
		fill(b, broker, name)
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
	})
}

func BenchmarkConsumeAcked(b *testing.B) {
	benchmarkOn(b, func(b *testing.B, broker *Broker, name string) {
		fill(b, broker, name)
		stop, cancel := context.WithCancel(b.Context())
		var count atomic.Int64
		b.ReportAllocs()
		b.ResetTimer()
		err := broker.Consume(stop, b.Context(), queue.Consumption{
			Queue: name, Prefetch: func() int { return 300 },
			Handle: func(_ context.Context, d queue.Delivery) bool {
				d.Ack()
				if count.Add(1) == int64(b.N) {
					cancel()
				}
				return true
			},
		})
		cancel()
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
	})
}
