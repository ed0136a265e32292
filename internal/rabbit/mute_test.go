package rabbit

import (
	"errors"
	"fmt"
	"hash/maphash"
	"testing"
	"time"

	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/testbroker"
)

// mute keeps a queue from answering anybody, as a machine does that is too busy, until the returned
// function is called.
func mute(node *testbroker.Rabbit, name string) (speak func()) {
	do := func(what string) {
		node.Ctl("eval", fmt.Sprintf(`{ok, Q} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, <<%q>>)), sys:%s(amqqueue:get_pid(Q)).`, name, what))
	}
	do("suspend")
	return func() { do("resume") }
}

// RabbitMQ says of a quorum queue that does not answer within 250 ms that it has no messages and no
// consumers. A page of which that is believed would be deleted with all that is in it.
func TestAQueueThatDoesNotAnswerIsNotTakenForAnEmptyOne(t *testing.T) {
	onOwn(t, testbroker.RabbitOptions{}, func(t *testing.T, node *testbroker.Rabbit) {
		n := newNames(t, "")
		b, _ := run(t, Config{URLs: []string{node.URL}, LeaseWait: time.Second})
		declare(t, b, n.specs())
		page := queue.Spec{Name: n.dead + ".page.0", Kind: queue.DeadSet}
		if proven, err := b.Prove(within(t, 10*time.Second), []queue.Spec{page}); proven != 1 || err != nil {
			t.Fatalf("Prove: %d, %v", proven, err)
		}
		publish(t, b, page.Name, 0, 10)
		depthIs(t, b, page.Name, 10)
		l := leaseOf(t, b, n.dead)
		speak := mute(node, page.Name)
		if depth, err := b.Depth(within(t, 5*time.Second), page.Name); !errors.Is(err, queue.ErrUnavailable) {
			t.Errorf("Depth: %d, %v", depth, err)
		}
		if depth, err := l.On(page).Depth(within(t, 5*time.Second)); !errors.Is(err, queue.ErrUnavailable) {
			t.Errorf("Depth of a lease: %d, %v", depth, err)
		}
		if w, err := l.On(page).Window(within(t, 5*time.Second), 10, 1<<20); !errors.Is(err, queue.ErrUnavailable) {
			t.Errorf("Window: %v, %v", w, err)
		}
		if err := l.On(page).Drop(within(t, 5*time.Second)); !errors.Is(err, queue.ErrUnavailable) {
			t.Errorf("Drop: %v", err)
		}
		speak()
		depthIs(t, b, page.Name, 10)
		if err := l.On(page).Drop(within(t, 5*time.Second)); err == nil {
			t.Error("a queue with messages was deleted")
		}
		depthIs(t, b, page.Name, 10)
	})
}

// leaderAway takes the leader of the queue away, of which there is no other, until the returned
// function is called. RabbitMQ then says at once that the queue is empty.
func leaderAway(node *testbroker.Rabbit, name string) (back func()) {
	do := func(what string) {
		node.Ctl("eval", fmt.Sprintf(`{ok, Q} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, <<%q>>)), ra:%s(quorum_queues, amqqueue:get_pid(Q)).`, name, what))
	}
	do("stop_server")
	return func() { do("restart_server") }
}

// A walk that believed RabbitMQ would say that nothing is left.
func TestADeadSetWhoseLeaderIsAwayIsNotTakenForAnEmptyOne(t *testing.T) {
	onOwn(t, testbroker.RabbitOptions{}, func(t *testing.T, node *testbroker.Rabbit) {
		n := newNames(t, "")
		b, _ := run(t, Config{URLs: []string{node.URL}, LeaseWait: time.Second})
		declare(t, b, n.specs())
		publish(t, b, n.dead, 0, 10)
		depthIs(t, b, n.dead, 10)
		asked := leaseOf(t, b, n.dead)
		back := leaderAway(node, n.dead)
		if depth, err := asked.Depth(within(t, 5*time.Second)); !errors.Is(err, queue.ErrUnavailable) {
			t.Errorf("Depth of a lease: %d, %v", depth, err)
		}
		asked.Release()
		if w, err := leaseOf(t, b, n.dead).Window(within(t, 5*time.Second), 10, 1<<20); !errors.Is(err, queue.ErrUnavailable) {
			t.Errorf("Window: %v, %v", w, err)
		}
		back()
		depthIs(t, b, n.dead, 10)
	})
}

// A leader that comes as the consumer is asked for has it sent all that there is, which the queue
// does not count meanwhile.
func TestWhatAQueueHandsOutAsItIsCountedAnewCounts(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		b, n := walkOf(t, url, 10)
		l := leaseOf(t, b, n.dead).(*lease) //nolint:forcetypeassert // it is ours
		for range 20 {
			if state, err := l.recount(within(t, 10*time.Second)); state.Messages != 10 || state.Consumers != 0 || err != nil {
				t.Fatalf("%+v, %v", state, err)
			}
		}
	})
}

// Even where the answer comes quickly and is wrong, as while a leader is chosen, nothing is
// deleted: what is in the queue is handed out to who wants to delete it.
func TestAConsumerOfAQueueThatIsToBeDeletedFindsTheLastMessageInIt(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		b, n := walkOf(t, url, 1)
		l := leaseOf(t, b, n.dead).(*lease) //nolint:forcetypeassert // it is ours
		w := newWindow(l, 0, 0, maphash.MakeSeed())
		deliveries, err := w.consume()
		if err != nil {
			t.Fatal(err)
		}
		if err := l.nothing(within(t, 10*time.Second), deliveries); !errors.Is(err, errInUse) {
			t.Errorf("of a queue with a message it is said: %v", err)
		}
		if err := l.session.closeChannel(w.ch); err != nil {
			t.Fatal(err)
		}
		depthIs(t, b, n.dead, 1)
	})
}
