// Command queue charges what another program publishes to the topic exchange "events" of RabbitMQ
// with keys such as payment.de: retries wait 1s, 2s, 4s … and what is left rests in a dead set. It
// needs RabbitMQ alone: RABBITMQ_URL, and the exchange.
package main

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
	"github.com/stepwell/stepwell/config"
)

// Payment is what the other program publishes.
type Payment struct {
	Order string
	Cents int
}

// app has charge called for each payment, with the country that its routing key ends with.
func app(charge func(ctx context.Context, country string, p Payment) error) actor.App {
	handle := func(ctx context.Context, p Payment, m *stepwell.Message) error {
		key := m.Origin.Queue.RoutingKey // say payment.de
		return charge(ctx, key[strings.LastIndexByte(key, '.')+1:], p)
	}
	return actor.App{
		Name: "billing",
		Streams: actor.Streams{"payments": {
			Handler: stepwell.JSON(handle),
			Config: config.Stream{
				Exchange: "events", RoutingKeys: []string{"payment.*"},
				Retry: config.Retry{Policy: "exponential", Delay: time.Second, MaxDelay: time.Minute, Count: new(10)},
			},
		}},
	}
}

func main() {
	actor.Main(app(func(_ context.Context, country string, p Payment) error {
		slog.Info("here a payment would be charged", "country", country, "order", p.Order, "cents", p.Cents)
		return nil
	}))
}
