package config_test

import (
	"errors"
	"fmt"

	"github.com/stepwell/stepwell/config"
)

func ExampleLoad() {
	cfg, err := config.Load(config.Source{
		AppName: "shipping",
		Streams: map[string]config.Stream{"orders": {Topics: []string{"orders.v1"}}},
		Environ: []string{"KAFKA_BROKERS=localhost:9092", "RABBITMQ_URL=amqp://localhost/", "RETRY_COUNT=5", "STREAMS_ORDERS_RETRY_DELAY=30s"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	orders := cfg.Stream("orders")
	fmt.Println(orders.Group, *orders.Retry.Count, orders.Retry.Delay)
	// Output: shipping.orders 5 30s
}

func ExampleErrors() {
	_, err := config.Load(config.Source{
		AppName: "shipping",
		Streams: map[string]config.Stream{"orders": {Topics: []string{"orders.v1"}}},
		Environ: []string{"RABBITMQ_URL=amqp://localhost/", "RETRY_DELAY=5", "STREAMS_ORDRES_START=latest"},
	})
	fmt.Println(err)
	var all config.Errors
	fmt.Println(errors.As(err, &all), len(all))
	// Output:
	// the configuration has mistakes:
	//   KAFKA_BROKERS: is required: host:port of one broker or more
	//   RETRY_DELAY: "5" is no duration such as 500ms, 5s or 1h30m (from environment RETRY_DELAY)
	//   STREAMS_ORDRES_START: no code registers such a stream; did you mean STREAMS_ORDERS_START?
	// true 3
}

func ExampleConfig_Unmarshal() {
	cfg, err := config.Load(config.Source{
		AppName: "shipping",
		Streams: map[string]config.Stream{"orders": {Topics: []string{"orders.v1"}}},
		Environ: []string{"APP_DB_URL=postgres://localhost/shipping", "APP_DB_POOL_SIZE=8"},

		Embedded: true,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	var db struct {
		URL      string `koanf:"url"`
		PoolSize int    `koanf:"pool_size"`
	}
	fmt.Println(cfg.Unmarshal("db", &db), db.URL, db.PoolSize)
	// Output: <nil> postgres://localhost/shipping 8
}
