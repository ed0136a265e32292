package rabbit

import (
	"context"
	"testing"
	"time"

	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/testbroker"
)

// Entries are acked soon, also the last ones: to the broker one that is not is a consumer that
// hangs, whose channel it closes.
func TestBrokersConsumerTimeoutDoesNotEndTheReadingOfALog(t *testing.T) {
	const timeout = 3 * time.Second
	o := testbroker.RabbitOptions{Conf: []string{"consumer_timeout = 3000"}}
	onOwn(t, o, func(t *testing.T, node *testbroker.Rabbit) {
		node.Ctl("eval", "application:set_env(rabbit, channel_tick_interval, 500).") // it looks each minute
		const log = "app.records"
		b, _ := run(t, Config{URLs: []string{node.URL}})
		declare(t, b, []queue.Spec{{Name: log, Kind: queue.Log}})
		publish(t, b, log, 0, 3)
		ctx, stop := context.WithTimeout(t.Context(), 4*timeout)
		defer stop()
		came := 0
		if err := b.Follow(ctx, log, 0, func(queue.Entry) { came++ }); ctx.Err() == nil {
			t.Errorf("it ended by itself: %v", err)
		}
		if came != 3 {
			t.Errorf("%d entries, want 3", came)
		}
	})
}
