// Command webhooks is a shop that tells a partner of each order, whatever becomes of the partner
// meanwhile. It needs nothing but Go: Kafka and queues are embedded, and so is the partner, who
// answers every other request with 503. Stop it with Ctrl-C.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
	"github.com/stepwell/stepwell/config"
	"github.com/stepwell/stepwell/embedded"
	"github.com/stepwell/stepwell/webhook"
)

// Order is what the topic carries.
type Order struct {
	ID    int `json:"id"`
	Cents int `json:"cents"`
}

// secret is for an example: a real one stands in a setting, and is random.
const secret = "partner=whsec_bm90IGEgc2VjcmV0LCBidXQgMzIgYnl0ZXMgbG9uZy4="

type shop struct {
	brokers *embedded.Brokers
	partner string // URL
	calls   *webhook.Handler
	routes  *webhook.Server
}

// start makes the handler of calls: what it needs of the actor is there only now.
func (s *shop) start(_ context.Context, env *actor.Env) (err error) {
	s.calls, err = webhook.NewHandler(webhook.Config{
		Enqueue: env.Enqueue, Refused: actor.ErrRefused, Retired: actor.ErrRetired, TooLarge: actor.ErrTooLarge, Logger: env.Logger, Hosts: []string{"127.0.0.1"}, Secrets: []string{secret},
	})
	if err == nil {
		s.routes = webhook.NewServer(s.calls)
	}
	return err
}

// tell posts a call to the partner: nil means that it is stored, and so the order is done.
func (s *shop) tell(ctx context.Context, o Order, m *stepwell.Message) error {
	call, err := json.Marshal(map[string]any{
		"id":      fmt.Sprintf("order-%d", o.ID),
		"request": map[string]any{"url": s.partner, "body": o},
		"waits":   []string{"1s", "2s", "5s", "1m", "1h"},
		"sign":    "partner",
	})
	if err != nil {
		return err
	}
	_, err = s.calls.Post(ctx, call)
	return err
}

func (s *shop) app() actor.App {
	return actor.App{
		Name: "shop", Brokers: s.brokers, Start: s.start, Guard: true,
		Stop: func(context.Context) error { s.calls.Close(); return nil },
		HTTP: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.routes.ServeHTTP(w, r) }),
		Streams: actor.Streams{
			"orders": {Handler: stepwell.JSON(s.tell), Config: config.Stream{Topics: []string{"orders.v1"}}},
			"calls": {
				Enqueued: true, Config: config.Stream{Retry: config.Retry{Count: new(1000)}},
				Handler: func(ctx context.Context, m *stepwell.Message) error { return s.calls.Call(ctx, m) },
				OnDead:  func(ctx context.Context, m *stepwell.Message, err error) error { return s.calls.Fallback(ctx, m, err) },
			},
		},
	}
}

// partner answers every other request with 503, and prints what it was told.
func partner(told func(id, body string)) http.Handler {
	requests := make(chan int, 1)
	requests <- 0
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := <-requests
		requests <- n + 1
		if n%2 == 0 {
			http.Error(w, "not now", http.StatusServiceUnavailable)
			return
		}
		var o json.RawMessage
		_ = json.NewDecoder(r.Body).Decode(&o)
		told(r.Header.Get("Webhook-Id"), string(o))
	})
}

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	server := &http.Server{ReadHeaderTimeout: time.Second, Handler: partner(func(id, body string) { fmt.Println("partner was told:", id, body) })}
	go func() { _ = server.Serve(listener) }()
	s := &shop{
		brokers: embedded.New(embedded.Options{Topics: map[string]int32{"orders.v1": 1}}),
		partner: "http://" + listener.Addr().String() + "/orders",
	}
	go s.sell()
	actor.Main(s.app())
}

// sell makes an order a second, for as long as the process lives.
func (s *shop) sell() {
	for id := range time.Tick(time.Second) {
		order := fmt.Sprintf(`{"id":%d,"cents":1700}`, id.Unix())
		_ = s.brokers.Produce(context.Background(), &kgo.Record{Topic: "orders.v1", Value: []byte(order)})
	}
}
