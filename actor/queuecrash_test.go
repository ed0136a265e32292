package actor_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/testbroker"
)

func TestARabbitMQMessageIsAckedOnlyWhenDoneOrConfirmedElsewhere(t *testing.T) {
	onQueues(t, func(t *testing.T, w *world, name string, ch *amqp.Channel) {
		const kills, each = 4, 300
		env := ofQueue(name).with(settings{"CONCURRENCY": "8"})
		var workers []*worker
		n := 0
		for range kills {
			k := w.work(t, "telling", env) // which fails each message once
			workers = append(workers, k)
			for range each {
				put(t, ch, name, amqp.Publishing{Body: fmt.Append(nil, "bad-", n)})
				n++
			}
			eventually(t, "many are under way", func() bool { return k.attempt(fmt.Sprint("bad-", n-each/2)) > 0 })
			k.kill(t)
		}
		workers = append(workers, w.work(t, "telling", env))
		// A second try that began and was killed is none.
		undone := func() (of []string) {
			for i := range n {
				value := fmt.Sprint("done bad-", i)
				if !slices.ContainsFunc(workers, func(k *worker) bool { return k.attempt(value) > 1 }) {
					of = append(of, value)
				}
			}
			return of
		}
		t.Cleanup(func() {
			if left := undone(); t.Failed() && len(left) > 0 {
				t.Errorf("%d of %d messages were not done, the first %q", len(left), n, left[0])
			}
		})
		eventually(t, "each was done in its second try", func() bool { return len(undone()) == 0 })
		workers[len(workers)-1].stop(t)
		if left := depthOf(t, ch, name); left != 0 {
			t.Errorf("%d messages are in the queue still", left)
		}
	})
}

func TestAKillerInAClassicQueueIsFound(t *testing.T) {
	t.Parallel()
	onBrokers(t, func(t *testing.T, w *world) {
		name, ch := w.foreign(t, "classic") // which counts no returns
		env := ofQueue(name).with(settings{"CRASH_LIMIT": "2", "CRASH_PROBATION": "7s", "KAFKA_SESSION_TIMEOUT": "6s"})
		put(t, ch, name, amqp.Publishing{Body: []byte("kills at once")}, amqp.Publishing{Body: []byte("good")})
		r := w.start(orders(func(context.Context, *stepwell.Message) error { return nil }), env.with(settings{"MODES": "api"}))
		for range 40 { // the bound: it takes ten returns until a message is a suspect at all
			k := w.work(t, "deadly", env)
			ended := make(chan struct{})
			go func() { _ = k.cmd.Wait(); close(ended) }()
			condemned := false
			eventually(t, "it dies, or the message is out", func() bool {
				select {
				case <-ended:
					return true
				default:
				}
				all, status := r.peek(1) // there is no dead set until a worker has declared it
				condemned = status == 200 && len(all) == 1
				return condemned
			})
			if condemned {
				if entry := r.dead(1)[0]; entry["reason"] != "crash_loop" || entry["queue"] != name {
					t.Errorf("the dead set has %v", entry)
				}
				if err := k.cmd.Process.Kill(); err != nil {
					t.Error(err)
				}
				<-ended
				return
			}
		}
		t.Error("the message kills for ever")
	})
}

func TestWhatCameBackIsAckedOnlyOnceItIsInTheInstantQueue(t *testing.T) {
	onEachPrivate(t, func(t *testing.T, w *world, node *testbroker.Rabbit) {
		name, ch := w.foreign(t, "quorum")
		const all = 50
		putNumbered(t, ch, name, "back-", all)
		other := w.channel()
		for range all {
			if _, ok, err := other.Get(name, false); err != nil || !ok {
				t.Fatalf("it is not handed out: %t, %v", ok, err)
			}
		}
		if err := other.Close(); err != nil { // which gives all back
			t.Fatal(err)
		}
		w.keepsAll(t, node, name, "usual", all, func(k *worker, i int) bool { return k.attempt(fmt.Sprint("back-", i)) > 0 })
	})
}

func TestWhatFailsIsAckedOnlyOnceItsRetryIsConfirmed(t *testing.T) {
	onEachPrivate(t, func(t *testing.T, w *world, node *testbroker.Rabbit) {
		name, ch := w.foreign(t, "quorum")
		const all = 50
		putNumbered(t, ch, name, "bad-", all)
		w.keepsAll(t, node, name, "telling", all, func(k *worker, i int) bool { return k.attempt(fmt.Sprint("done bad-", i)) > 1 })
	})
}

// putNumbered puts so many messages into a queue.
func putNumbered(t *testing.T, ch *amqp.Channel, name, prefix string, all int) {
	t.Helper()
	for i := range all {
		put(t, ch, name, amqp.Publishing{Body: fmt.Append(nil, prefix, i)})
	}
	eventually(t, "all are there", func() bool { return depthOf(t, ch, name) == all })
}

// keepsAll fails the test unless all messages of the queue stay in it while an actor has some, and
// nothing that it publishes is confirmed, which is so under an alarm. Then it is killed, and each
// is to be done by the next.
func (w *world) keepsAll(t *testing.T, node *testbroker.Rabbit, name, program string, all int, done func(k *worker, i int) bool) {
	t.Helper()
	node.Ctl("set_vm_memory_high_watermark", "0.00000001")
	k := w.work(t, program, ofQueue(name))
	holds := func() bool { // some are handed out, and none is gone
		of, _, _ := strings.Cut(node.Ctl("-q", "list_queues", "messages", "messages_unacknowledged", "name"), "\t"+name)
		of = of[strings.LastIndex(of, "\n")+1:]
		return strings.HasPrefix(of, fmt.Sprint(all, "\t")) && !strings.HasSuffix(of, "\t0")
	}
	eventually(t, "the actor has some", holds)
	always(t, "it acks none", time.Second, holds)
	k.kill(t)
	node.Ctl("set_vm_memory_high_watermark", "0.6")
	k = w.work(t, program, ofQueue(name))
	eventually(t, "each is handled", func() bool {
		for i := range all {
			if !done(k, i) {
				return false
			}
		}
		return true
	})
	k.stop(t)
}
