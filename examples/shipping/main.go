// Command shipping is the smallest actor: one stream, one handler, everything else from the
// environment.
package main

import (
	"context"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
)

type Order struct{ ID string }

func charge(ctx context.Context, o Order, m *stepwell.Message) error { return nil }

func main() {
	actor.Main(actor.App{
		Name:    "shipping",
		Streams: actor.Streams{"orders": {Handler: stepwell.JSON(charge)}},
	})
}
