package actor_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
	"github.com/stepwell/stepwell/internal/testbroker"
)

func TestARetryThatIsHandedOverIsAckedOnlyOnceTheChannelHasIt(t *testing.T) {
	onPrivate(t, testbroker.RabbitOptions{}, func(t *testing.T, w *world, node *testbroker.Rabbit) {
		var slow calls
		runs, goesOn := make(chan struct{}, 1), make(chan struct{})
		r := w.start(withSlow(func(ctx context.Context, m *stepwell.Message) error {
			if m.Attempt == 1 {
				return errFlaky
			}
			runs <- struct{}{}
			select {
			case <-goesOn:
			case <-ctx.Done():
			}
			return stepwell.To("slow")
		}, actor.Channel{Handler: seeing(&slow, works)}), nil)
		w.produce(&kgo.Record{Value: []byte("x")})
		select {
		case <-runs:
		case <-time.After(time.Minute):
			t.Fatal("the retry does not come")
		}
		// Under an alarm nothing that is published is confirmed.
		node.Ctl("set_vm_memory_high_watermark", "0.00000001")
		close(goesOn)
		always(t, "the retry is not acked", 2*time.Second, func() bool {
			return strings.Contains("\n"+node.Ctl("-q", "list_queues", "messages", "messages_unacknowledged", "name"), "\n1\t1\t"+w.queue("orders", "instant")+"\n")
		})
		if n := len(slow.all()); n != 0 {
			t.Errorf("%d calls in the channel under the alarm", n)
		}
		node.Ctl("set_vm_memory_high_watermark", "0.6")
		eventually(t, "the channel has it", func() bool { return len(slow.all()) == 1 })
		r.slowEmpty()
	})
}
