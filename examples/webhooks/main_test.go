package main

import (
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell/actortest"
	"github.com/stepwell/stepwell/embedded"
)

func TestThePartnerIsToldOfEachOrderThoughItFailsEveryOtherTime(t *testing.T) {
	told := make(chan string, 10)
	p := httptest.NewServer(partner(func(id, body string) { told <- id + " " + body }))
	defer p.Close()
	s := &shop{brokers: embedded.New(embedded.Options{Topics: map[string]int32{"orders.v1": 1}}), partner: p.URL}
	app := s.app()
	actortest.Start(t, app, "SERVER_ADDRESS=off")
	want := map[string]bool{}
	for id := range 3 {
		order := fmt.Sprintf(`{"id":%d,"cents":1700}`, id)
		want[fmt.Sprintf("order-%d %s", id, order)] = true
		if err := s.brokers.Produce(t.Context(), &kgo.Record{Topic: "orders.v1", Value: []byte(order)}); err != nil {
			t.Fatal(err)
		}
	}
	for len(want) > 0 {
		select {
		case got := <-told:
			if !want[got] {
				t.Errorf("told %s", got)
			}
			delete(want, got)
		case <-time.After(30 * time.Second):
			t.Fatalf("not told: %v", want)
		}
	}
}
