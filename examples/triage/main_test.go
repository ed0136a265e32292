package main

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell/actor"
	"github.com/stepwell/stepwell/actortest"
	"github.com/stepwell/stepwell/embedded"
)

func TestALargeOrderIsChargedByTheChannelAndHoldsUpNoSmallOne(t *testing.T) {
	brokers := embedded.New(embedded.Options{Topics: map[string]int32{"orders.v1": 1}})
	charged := make(chan string, 2)
	s := &service{charged: func(id string) { charged <- id }}
	app := actor.App{Name: "shipping", Streams: s.streams(), Brokers: brokers}
	actortest.Start(t, app, "SERVER_ADDRESS=off", "STREAMS_ORDERS_TOPICS=orders.v1", "ORDER=partition")
	for _, order := range []string{`{"ID":"large","Items":1000}`, `{"ID":"small","Items":1}`} {
		if err := brokers.Produce(t.Context(), &kgo.Record{Topic: "orders.v1", Value: []byte(order)}); err != nil {
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
