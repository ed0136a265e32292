// Command zigguratgo is what a program for the Go form of Ziggurat becomes: a router and its queues
// are two streams, what the handlers published to dead-letter queues is an error that one
// middleware knows, and routes for the dead are those that each actor has. The program that it was
// is in docs/MIGRATING.md.
package main

import (
	"errors"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
)

type shop struct{ bank }

func final(err error) error {
	if errors.Is(err, errRefused) {
		return stepwell.DeadLetter(err)
	}
	return nil
}

func (s *shop) app() actor.App {
	return actor.App{
		Name: "shipping",
		Use:  []stepwell.Middleware{stepwell.Classify(final)},
		Streams: actor.Streams{
			"orders":  {Handler: stepwell.JSON(s.charge)},
			"refunds": {Handler: stepwell.JSON(s.refund)},
		},
	}
}

func main() { actor.Main((&shop{}).app()) }
