package rabbit

import (
	"sync/atomic"

	amqp "github.com/rabbitmq/amqp091-go"
)

// loss is what is known of a consumer that the broker may serve no more without saying so. But for
// what is atomic it is the keeper's alone.
type loss struct {
	// came counts the deliveries.
	came atomic.Int64
	// busy is set while Handle has a delivery: nothing else can come then, which is no loss.
	busy atomic.Bool
	// seen is what came was when the keeper last looked; starved counts its looks that found
	// messages ready though none came.
	seen    int64
	starved int
	// renewal outlives the consumer: all of one Consume share it.
	renewal *renewal
	// replace has the goroutine of Consume go on with a channel of its own anew.
	replace atomic.Bool
}

// lookForLoss asks whether the broker still knows the consumer, when nothing came since the last
// look though the prefetch had room. A queue that is deleted and declared again at once may not
// tell its consumers: they would wait for ever beside a full queue. In a drain and in a pause there
// is no consumer to be lost.
func (k *consumer) lookForLoss(prefetch int) {
	of := &k.loss
	came, held := of.came.Load(), k.acks.outstanding()
	idle := came == of.seen && k.acks.heldFrom(firstOf(k)) < prefetch && k.awaits()
	if came != of.seen {
		*of.renewal = renewal{}
	}
	of.seen = came
	if !idle {
		of.starved = 0
		return
	}
	state, err := k.session.count(k.c.Queue)
	switch {
	case code(err) == amqp.NotFound:
		k.end(errConsumerForgot)
	// Any other error says nothing about the consumer, a delivery says that it lives, and one that
	// was cancelled is looked for no more.
	case err != nil || of.came.Load() != came || !k.subscribed.Load():
	case state.Consumers == 0:
		k.end(errConsumerForgot)
	case k.mayBeDeaf(held, state.Messages > 0), held == 0 && mayReturn(k):
		of.replace.Store(true)
		signal(k.again)
	case k.c.Foreign: // another consumer of the queue may be served first, or alone
	case state.Messages > 0: // it may be on its way: believe it the second time
		if of.starved++; of.starved > 1 {
			k.end(errConsumerForgot)
		}
	}
}

// firstOf is the tag of the first delivery that the consumer of now may have.
func firstOf(k *consumer) uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.credit.first
}

// awaits says that something could come.
func (k *consumer) awaits() bool { return k.subscribed.Load() && !k.loss.busy.Load() && !k.paused() }

// mayBeDeaf says that an idle consumer is to be opened anew. Not while it holds a message, which
// would be handed out again.
func (k *consumer) mayBeDeaf(held int, ready bool) bool {
	return k.session.release.before(4, 0) && held == 0 && k.loss.renewal.due(ready)
}

// renewal says when an idle consumer is opened anew, on another channel, since it may be deaf.
//
// Before 4.0 RabbitMQ consumes for a client by itself when the client's queue was deleted and is
// there again as its channel hears of that, and then drops all that the new queue hands out (seen
// on 3.10.8, with quorum and classic queues; newer releases cancel the consumer). The consumer is
// listed, and as much as its prefetch is in nobody's hands, nor in the depth, until the channel is
// closed. No answer of the broker tells such a consumer from one whose queue is empty, or served to
// another first. So it is opened anew: soon, and then each time after twice as long, since one that
// waits for its turn must not go on asking.
type renewal struct {
	// looks are those since it was opened, times that of how often it was opened anew.
	looks, times int
	// ready says that messages were seen that did not come.
	ready bool
}

const (
	// renewFirst is how many looks (prefetchEvery) find an idle consumer before it is opened anew.
	renewFirst = 3
	// renewMost is how often that is doubled at most: to 16 minutes.
	renewMost = 6
)

// due is told of each look that finds the consumer idle with nothing in hand, and whether messages
// are ready in the queue. The first time that some are, it begins anew.
func (r *renewal) due(ready bool) bool {
	if ready && !r.ready {
		*r = renewal{ready: true}
	}
	if r.looks++; r.looks < renewFirst<<r.times {
		return false
	}
	r.looks, r.times = 0, min(r.times+1, renewMost)
	return true
}
