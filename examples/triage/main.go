// Command triage decides quickly which orders need long work, and hands those over to a channel:
// its workers, its waits and its dead set are its own, and the stream goes on meanwhile.
package main

import (
	"context"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
)

// Order is what the topic has.
type Order struct {
	ID    string
	Items int
}

type service struct{ charged func(id string) }

// triage keeps what is small, and hands the rest over.
func (s *service) triage(ctx context.Context, m *stepwell.Message) error {
	return stepwell.JSON(func(ctx context.Context, o Order, m *stepwell.Message) error {
		if o.Items > 100 {
			return stepwell.To("slow")
		}
		return s.charge(ctx, o, m)
	})(ctx, m)
}

// charge takes as long as the order is.
func (s *service) charge(ctx context.Context, o Order, _ *stepwell.Message) error {
	select {
	case <-time.After(time.Duration(o.Items) * time.Millisecond):
	case <-ctx.Done():
		return ctx.Err()
	}
	s.charged(o.ID)
	return nil
}

func (s *service) streams() actor.Streams {
	return actor.Streams{
		"orders": {Handler: s.triage, Channels: actor.Channels{"slow": {Handler: stepwell.JSON(s.charge)}}},
	}
}

func main() {
	s := &service{charged: func(string) {}}
	actor.Main(actor.App{Name: "shipping", Streams: s.streams()})
}
