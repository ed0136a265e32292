// Command ziggurat is what a program for Ziggurat becomes: a stream whose long work goes to a
// channel, a stream that is handled in batches, retries, start and stop functions, and a route of
// its own. The program that it was is in docs/MIGRATING.md.
package main

import (
	"context"
	"net/http"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
)

type shop struct{ bank }

func (s *shop) triage(ctx context.Context, o order, m *stepwell.Message) error {
	switch {
	case o.Items == 0:
		return stepwell.Skip("nothing was ordered")
	case o.Items > 100:
		return stepwell.To("slow")
	}
	return s.charge(ctx, o, m)
}

func (s *shop) index(ctx context.Context, orders []order, b *stepwell.Batch) error {
	for i, m := range b.Messages() {
		if err := s.find(ctx, orders[i]); err != nil {
			b.Fail(m, err)
		}
	}
	return nil
}

func (s *shop) hello(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) }

func (s *shop) app() actor.App {
	return actor.App{
		Name: "shipping", Start: s.open, Stop: s.close, HTTP: http.HandlerFunc(s.hello),
		Streams: actor.Streams{
			"orders": {Handler: stepwell.JSON(s.triage), Channels: actor.Channels{"slow": {Handler: stepwell.JSON(s.charge)}}},
			"search": {Batch: stepwell.JSONBatch(s.index)},
		},
	}
}

func main() { actor.Main((&shop{}).app()) }
