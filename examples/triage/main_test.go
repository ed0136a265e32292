package main

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell/actor"
	"github.com/stepwell/stepwell/embedded"
)

func TestALargeOrderIsChargedByTheChannelAndHoldsUpNoSmallOne(t *testing.T) {
	brokers := embedded.New(embedded.Options{Topics: map[string]int32{"orders.v1": 1}})
	charged := make(chan string, 2)
	s := &service{charged: func(id string) { charged <- id }}
	app := actor.App{Name: "shipping", Streams: s.streams(), Brokers: brokers}
	cfg, err := actor.Load(app, []string{"SERVER_ADDRESS=off", "STREAMS_ORDERS_TOPICS=orders.v1", "ORDER=partition"})
	if err != nil {
		t.Fatal(err)
	}
	a, err := actor.New(cfg, app)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	for _, order := range []string{`{"ID":"large","Items":1000}`, `{"ID":"small","Items":1}`} {
		if err := brokers.Produce(ctx, &kgo.Record{Topic: "orders.v1", Value: []byte(order)}); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"small", "large"} {
		select {
		case got := <-charged:
			if got != want {
				t.Errorf("%s was charged, want %s", got, want)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("%s was not charged", want)
		}
	}
}
