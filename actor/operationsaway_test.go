package actor

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/embedded/memory"
	"github.com/stepwell/stepwell/internal/operations"
)

// The operation lives in its process: no lease of operations is lost with RabbitMQ, which would end
// its turn.
func TestWhileRabbitMQIsAwayAnOperationSaysSoAndIsPausedCancelledOrGoesOn(t *testing.T) {
	const n = 60
	dies := Stream{Handler: func(context.Context, *stepwell.Message) error { return stepwell.DeadLetter(nil) }}
	for _, action := range []string{operations.Replay, operations.Delete} {
		for _, wanted := range []operations.Phase{operations.Paused, operations.Cancelled, operations.Done} {
			t.Run(action+" "+string(wanted), func(t *testing.T) {
				streamInBubble(t, dies, func(b *bubble) {
					t := b.t
					b.handle(slices.Repeat([]string{""}, n)...)
					time.Sleep(time.Minute)
					b.stream.Pause("alice") // what is replayed does not die again
					asked := operations.Request{
						Action: action, Target: operations.Target{Stream: "orders"}, Select: operations.Selection{All: true},
						Before: time.Now(), CreatedAt: time.Now(), Trash: operations.Wait(time.Hour),
					}
					runner := b.actor.operations
					o, _, err := runner.Ask(t.Context(), asked, operations.Rate{Messages: 1, Per: time.Second}, "")
					if err != nil {
						t.Fatal(err)
					}
					time.Sleep(n / 4 * time.Second)
					queues := b.brokers.Queues().(*memory.Broker)
					queues.SetUp(false)
					time.Sleep(time.Minute)
					o, err = runner.Find(t.Context(), o.ID)
					if err != nil || o.Phase != operations.Running || o.Done < 1 || o.Done >= n/2 || !strings.Contains(o.Why, "queues are not available") {
						t.Errorf("while it is away: %+v, %v", o, err)
					}
					if wanted == operations.Done {
						queues.SetUp(true)
						time.Sleep(2 * n * time.Second)
						o, err = runner.Find(t.Context(), o.ID)
						if err != nil || o.Phase != wanted || o.Done != n || o.Why != "" {
							t.Errorf("when it is back: %+v, %v", o, err)
						}
						return
					}
					soon, cancel := context.WithTimeout(t.Context(), 20*time.Second)
					defer cancel()
					if o, err = runner.Change(soon, o.ID, operations.Change{Phase: wanted}); err != nil || o.Phase != wanted {
						t.Errorf("%+v, %v", o, err)
					}
				}, "RABBITMQ_RECORDS=false")
			})
		}
	}
}
