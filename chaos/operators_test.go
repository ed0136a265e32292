package chaos

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// operators are what people do to queues.
func operators() []scenario {
	var all []scenario
	for _, kind := range []string{"delay", "instant", "dead_set"} {
		all = append(all,
			scenario{name: "an operator deletes the queue: " + kind, fault: func(r *run) { r.removed(kind, r.deleteQueue) }},
			scenario{name: "an operator deletes the queue and declares it again: " + kind, fault: func(r *run) { r.removed(kind, r.deleteQueue, r.declare) }},
			scenario{name: "an operator purges the queue: " + kind, fault: func(r *run) { r.removed(kind, r.purgeQueue) }},
			scenario{name: "an operator declares the queue with other arguments, and deletes it again: " + kind, fault: func(r *run) {
				r.removed(kind, r.deleteQueue, r.declareOtherwise)
				r.pause(3 * time.Second)
				r.removed(kind, r.deleteQueue)
			}},
		)
	}
	return append(all,
		scenario{name: "the instant queue is away when messages expire", env: settings{"RETRY_DELAY": "3s"}, short: true, fault: expireWithoutTarget},
		scenario{name: "the delay queue is full and refuses", fault: fullQueue},
		scenario{name: "two operators replay the dead set and an actor is killed", fault: replayTwice},
	)
}

// removed does it to a queue while no actor runs, and notes what the queue held.
func (r *run) removed(kind string, do func(name string), then ...func(name string)) {
	r.t.Helper()
	if kind == "delay" {
		kind = r.delayed()
	}
	r.frozen(func() {
		if kind == "instant" {
			r.pause(r.delay() + time.Second) // nothing is on its way there any more
		}
		r.counted(r.queue(kind), do)
		r.disconnect() // RabbitMQ 3.10 may take who consumed the queue of that name for a consumer of the next one
		for _, then := range then {
			then(r.queue(kind))
		}
	})
	r.pause(3 * time.Second)
}

// counted notes what the queue holds, and takes it away: what can be had, by name, and what actors
// have, by number.
func (r *run) counted(name string, do func(name string)) {
	r.t.Helper()
	deliveries := r.consume(name, false)
	taken := r.had(name, deliveries)
	held := r.unacked(name) - len(taken)
	r.t.Logf("%s: %d can be had, actors have %d", name, len(taken), held)
	r.end.Held += held
	do(name)
	r.watch.remove(append(taken, r.all(deliveries)...)...)
}

func (r *run) deleteQueue(name string) {
	r.t.Helper()
	_, err := r.channel().QueueDelete(name, false, false, false)
	r.check(err)
}

// declare makes the queue as it was. Its consumers may not be told that it is another one.
func (r *run) declare(name string) {
	r.t.Helper()
	args := amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": int64(1_000_000)}
	target := ""
	switch name {
	case r.queue("dead_set"):
		args["x-single-active-consumer"] = true
	case r.queue("instant"):
		target = r.queue("dead_set")
	default:
		target = r.queue("instant")
		args["x-message-ttl"] = r.delay().Milliseconds()
	}
	if target != "" {
		args["x-dead-letter-exchange"], args["x-dead-letter-routing-key"] = "", target
		args["x-dead-letter-strategy"], args["x-overflow"] = "at-least-once", "reject-publish"
	}
	_, err := r.channel().QueueDeclare(name, true, false, false, false, args)
	r.check(err)
}

// declareOtherwise makes a queue that nobody but an operator would.
func (r *run) declareOtherwise(name string) {
	r.t.Helper()
	_, err := r.channel().QueueDeclare(name, true, false, false, false, amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": int64(1_000_000)})
	r.check(err)
}

func (r *run) purgeQueue(name string) {
	r.t.Helper()
	r.disconnect() // what was taken goes back
	_, err := r.channel().QueuePurge(name, false)
	r.check(err)
}

// expireWithoutTarget deletes the instant queue, and lets messages expire before it is there again.
func expireWithoutTarget(r *run) {
	r.pause(3 * time.Second) // so that messages wait
	n := len(r.actors)
	for len(r.actors) > 0 {
		r.actors[0].leave()
	}
	name := r.queue("instant")
	held := r.consume(name, false)
	r.pause(300 * time.Millisecond)
	r.deleteQueue(name)
	r.watch.remove(r.all(held)...)
	r.pause(r.delay() + time.Second)
	for range n {
		r.spawn()
	}
}

// fullQueue has the queue nack what is published to it.
func fullQueue(r *run) {
	r.rabbit.Ctl("set_policy", "--apply-to", "queues", "full", "^"+r.app+`\.orders\.delay`, `{"max-length":5,"overflow":"reject-publish"}`)
	r.pause(4 * time.Second)
	r.rabbit.Ctl("clear_policy", "full")
}

// replayTwice has two operators ask two actors for the same, again and again, while one of the
// actors dies.
func replayTwice(r *run) {
	ctx, cancel := context.WithCancel(r.t.Context())
	var operators sync.WaitGroup
	for _, p := range r.actors {
		operators.Go(func() { p.replayFor(ctx) })
	}
	r.often(func() { r.pause(300 * time.Millisecond) })
	r.anActor().kill()
	p := r.spawn()
	r.until("it is ready", time.Minute, p.ready)
	operators.Go(func() { p.replayFor(ctx) })
	r.pause(2 * time.Second)
	cancel()
	operators.Wait()
}

// replayFor replays until ctx ends, and minds no refusal.
func (p *process) replayFor(ctx context.Context) {
	for ctx.Err() == nil {
		_, _, _ = p.replay(ctx, 500)
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

func (p *process) replay(ctx context.Context, count int) (int, string, error) {
	return p.do(ctx, http.MethodPost, "/v1/dead_set/replay", fmt.Sprintf(`{"count":%d,"stream":"orders"}`, count))
}

func atoi(r *run, text string) int {
	r.t.Helper()
	n, err := strconv.Atoi(text)
	r.check(err)
	return n
}
