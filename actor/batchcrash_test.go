package actor_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/testbroker"
)

func TestABatchKilledHalfWayIsSeenWholeAgain(t *testing.T) {
	t.Parallel()
	onEachBroker(t, func(t *testing.T, w *world) {
		env := settings{batchVariable: "yes", "BATCH_SIZE": "8", "BATCH_WAIT": "10s"}
		half := slices.Concat(several("before", 4), values("bad"), several("behind", 3)) // it holds the fifth
		for _, r := range half {
			r.Partition = 1
			w.produceTo(r)
		}
		first := w.work(t, "hold:+", env)
		eventually(t, "it is half way", func() bool { return first.attempt("bad") == 1 })
		if n := w.committed(); n > 0 {
			t.Errorf("%d are committed of a batch that runs", n)
		}
		first.kill(t)
		next := w.work(t, "usual", env)
		eventually(t, "all is committed", func() bool { return w.committed() == 8 })
		next.stop(t)
		for _, r := range half {
			if value := string(r.Value); next.attempt(value) == 0 {
				t.Errorf("%s was not seen again", value)
			}
		}
	})
}

// produceTo writes a record to the partition that it names.
func (w *world) produceTo(r *kgo.Record) {
	w.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(w.seeds), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		w.t.Fatal(err)
	}
	defer client.Close()
	r.Topic = w.topic
	if err := client.ProduceSync(w.t.Context(), r).FirstErr(); err != nil {
		w.t.Fatal(err)
	}
}

func TestAKillerInABatchIsFoundAndItsNeighboursLive(t *testing.T) {
	if testing.Short() {
		t.Skip(testbroker.NotRun + "processes that are killed again and again, because of -short")
	}
	t.Parallel()
	nodes := testbroker.RabbitMQs(t)
	for _, test := range []struct {
		killer    string
		instances int
		node      testbroker.Node
		inPlace   string
	}{
		{"kills at once", 1, nodes[0], "0"},
		{"kills at once", 3, nodes[len(nodes)-1], "0"},
		{"kills later", 1, nodes[len(nodes)-1], "0"},
		{"kills later", 2, nodes[0], "all"},
		{"ends its goroutine at once", 2, nodes[len(nodes)-1], "0"},
	} {
		t.Run(fmt.Sprintf("it %s, %d processes, RETRY_IN_PLACE=%s, RabbitMQ %s", test.killer, test.instances, test.inPlace, test.node.Version), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.rabbit, w.seeds = test.node.URL, testbroker.Kafka(t)
			w.connect(kgo.SeedBrokers(w.seeds))
			w.createTopic(w.topic, 4)
			t.Cleanup(w.deleteQueues)
			const n = 200
			var last []string // what each neighbour says in its last call
			for i := range n {
				value := fmt.Sprintf("goes well %d", i)
				if i == n/2 {
					value = test.killer
				} else {
					last = append(last, "+ "+value+"\n")
				}
				w.produce(&kgo.Record{Key: fmt.Appendf(nil, "%d", i), Value: []byte(value)})
			}
			s := w.supervise(t, test.instances, batchVariable+"=yes", "BATCH_SIZE=40", "BATCH_WAIT=200ms", "CONCURRENCY=2", "RETRY_IN_PLACE="+test.inPlace)
			within(t, 8*time.Minute, "the killer is dead and all else is done", func() bool {
				return w.committed() == n && w.ready(t, "dead_set") == 1 && s.logged(last)
			})
			s.stop()
			look := w.start(orders(func(_ context.Context, m *stepwell.Message) error {
				t.Errorf("%s is called once more", m.Value)
				return nil
			}), nil)
			dead := look.deadCount(1)
			if dead[0]["value"] != test.killer || dead[0]["reason"] != stepwell.ReasonCrashLoop {
				t.Errorf("in the dead set is %v", dead[0])
			}
			t.Logf("%d deaths", s.deaths.Load())
		})
	}
}
