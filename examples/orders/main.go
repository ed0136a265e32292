// Command orders is a whole actor that needs nothing but Go: it runs on embedded Kafka and queues
// and makes its own sample orders, some of which fail once and some always.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
	"github.com/stepwell/stepwell/config"
	"github.com/stepwell/stepwell/embedded"
)

// Order is what the sample topic carries.
type Order struct {
	ID    int    `json:"id"`
	Card  string `json:"card"`
	Cents int    `json:"cents"`
}

// charge stands for a call of a flaky payment service: most cards work, some at the second try,
// some never.
func charge(_ context.Context, o Order, m *stepwell.Message) error {
	switch {
	case o.Card == "stolen":
		return stepwell.DeadLetter(fmt.Errorf("order %d: card was reported stolen", o.ID))
	case o.Card == "expired" && m.Replays == 0:
		return fmt.Errorf("order %d: card has expired", o.ID)
	case o.Card == "slow" && m.Attempt == 1:
		return errors.New("payment service: time-out")
	}
	return nil
}

func main() {
	brokers := embedded.New(embedded.Options{Topics: map[string]int32{"orders.v1": 4}})
	samples := &producer{brokers: brokers}
	shop := app(brokers)
	shop.Start, shop.Stop = samples.start, samples.stop
	actor.Main(shop)
}

// app is the actor without its sample orders: main_test.go runs it too.
func app(brokers actor.Brokers) actor.App {
	return actor.App{
		Name:    "shop",
		Brokers: brokers,
		Streams: actor.Streams{"orders": {
			Handler: stepwell.JSON(charge),
			Config: config.Stream{
				Topics: []string{"orders.v1"},
				Retry:  config.Retry{Count: new(2), Delay: time.Second},
			},
		}},
	}
}

const where = `
Orders are on their way, and some of them die. After some seconds, in another terminal:

  curl '%[1]s/v1/dead_set?count=10&topic-entity=orders'
  curl -X POST %[1]s/v1/dead_set/replay -H 'content-type: application/json' -d '{"count":"10","topic_entity":"orders"}'
  curl -X DELETE %[1]s/v1/dead_set -H 'content-type: application/json' -d '{"count":"10","topic-entity":"orders"}'

In a browser: http://%[1]s/console
Also: %[1]s/v1/streams, /readyz?verbose, /metrics. Ctrl-C ends it.

`

// hint says what to do next, for an actor that serves HTTP at the address.
func hint(address string) string {
	if address == "off" {
		return "Orders are on their way. SERVER_ADDRESS is off, so nothing can be asked or replayed.\n"
	}
	if strings.HasPrefix(address, ":") {
		address = "localhost" + address
	}
	return fmt.Sprintf(where, address)
}

// producer makes a sample order every 100 ms.
type producer struct {
	brokers *embedded.Brokers
	cancel  context.CancelFunc
	done    chan struct{}
}

func (p *producer) start(_ context.Context, env *actor.Env) error {
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel, p.done = cancel, make(chan struct{})
	fmt.Fprint(os.Stderr, hint(env.Config.Server.Address))
	go func() {
		defer close(p.done)
		p.run(ctx)
	}()
	return nil
}

func (p *producer) stop(context.Context) error {
	p.cancel()
	<-p.done
	return nil
}

func (p *producer) run(ctx context.Context) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	cards := []string{"good", "good", "slow", "good", "expired", "good", "good", "stolen"}
	for id := 1; ; id++ {
		order := fmt.Sprintf(`{"id":%d,"card":%q,"cents":%d}`, id, cards[id%len(cards)], 100+id)
		r := &kgo.Record{Topic: "orders.v1", Key: fmt.Appendf(nil, "customer-%d", id%17), Value: []byte(order)}
		if err := p.brokers.Produce(ctx, r); err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, "produce sample order:", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
