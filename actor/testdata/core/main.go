// Command core is a user's program that has only what the core had: a handler, start and stop
// functions, a route of its own, and retries as the environment says. It must not be edited: that
// it compiles and does the same as ever is what TestAProgramThatUsesOnlyTheCoreRunsUnchanged tests.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
	"github.com/stepwell/stepwell/embedded"
)

func handle(_ context.Context, m *stepwell.Message) error {
	fmt.Printf("%s %s %s %d\n", m.Stream, m.Key, m.Value, m.Attempt)
	switch string(m.Value) {
	case "fails once":
		if m.Attempt == 1 {
			return errors.New("not yet")
		}
	case "fails":
		return errors.New("always")
	case "is dead":
		return stepwell.DeadLetter(errors.New("no such order"))
	case "is skipped":
		return stepwell.Skip("a test order")
	}
	return nil
}

func main() {
	brokers := embedded.New(embedded.Options{Topics: map[string]int32{"orders.v1": 2}})
	routes := http.NewServeMux()
	routes.HandleFunc("GET /hello", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
	actor.Main(actor.App{
		Name:    "shop",
		Brokers: brokers,
		Streams: actor.Streams{"orders": {Handler: handle}},
		Start: func(ctx context.Context, env *actor.Env) error {
			env.Logger.Info("the program starts")
			fmt.Println("start", env.Config.App.Name)
			var records []*kgo.Record
			for _, value := range []string{"works", "fails once", "fails", "is dead", "is skipped"} {
				records = append(records, &kgo.Record{Topic: "orders.v1", Key: []byte("k"), Value: []byte(value)})
			}
			return brokers.Produce(ctx, records...)
		},
		Stop: func(context.Context) error {
			fmt.Println("stop")
			return nil
		},
		HTTP: routes,
	})
}
