package webhook_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/webhook"
)

// In an actor Enqueue is that of its Env; Refused, Retired and TooLarge are actor.ErrRefused,
// actor.ErrRetired and actor.ErrTooLarge; and the handler's methods are those of a stream:
// {Enqueued: true, Handler: h.Call, OnDead: h.Fallback}.
func ExampleHandler_Post() {
	h, err := webhook.NewHandler(webhook.Config{
		Enqueue: func(_ context.Context, stream string, m stepwell.Message, after time.Duration) error {
			fmt.Printf("%s: %s for %s, after %s\n", stream, m.ID, m.Key, after)
			return nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = h.Post(context.Background(), []byte(`{
		"id": "order-17", "after": "1m", "waits": ["5s", "1m", "1h"],
		"request": {"url": "https://partner.example/orders", "body": {"order": 17}}
	}`))
	fmt.Println("stored:", err == nil)
	_, err = h.Post(context.Background(), []byte(`{"request": {"url": "http://u:p@partner.example/"}}`))
	kind := stepwell.VerdictOf(err).Kind
	fmt.Println(kind, strings.ReplaceAll(err.Error(), "; ", "\n"))
	// Output:
	// calls: order-17 for https://partner.example, after 1m0s
	// stored: true
	// dead call: request.url must have no user and password: put them into a header, Authorization
	// waits is required, or workflow: as ["5s","1m","1h"]
	// [] is for a single try
}
