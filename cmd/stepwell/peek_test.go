package main

import (
	"slices"
	"testing"
)

// What came from RabbitMQ has no topic: its routing key is what tells it from the others.
func TestATableOfDeadMessagesSaysWhereEachCameFrom(t *testing.T) {
	for want, m := range map[string]dead{
		"orders.v1":         {Topic: "orders.v1"},
		"payments":          {Queue: "payments", RoutingKey: "payments"},
		"events refund.a.b": {Queue: "billing.events.source", Exchange: "events", RoutingKey: "refund.a.b"},
		"-":                 {}, // enqueued
	} {
		m.Key = new("k") // one that is null is a dash, too
		for _, row := range [][]string{m.row(), thrown{dead: m}.row()} {
			if !slices.Contains(row, want) {
				t.Errorf("%+v is shown as %q, without %q", m, row, want)
			}
		}
	}
}
