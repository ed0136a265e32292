package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stepwell/stepwell"
)

const failureText = `A part of the records fails at its first try, waits 100 ms in a quorum queue of RabbitMQ, and succeeds at its second. The hand-written program does the same work on queues
of the same kind: a poll loop that hands failures, with three short headers, to a publisher with up to 1000 confirms in flight (mandatory, persistent) whose writes are gathered while one is
under way, marks offsets for commit when all before them are confirmed, and consumes what comes back with a prefetch of 300 and acks of 100 or 10 ms. Dead-lettering is at-least-once, as stepwell's queues have it; at-most-once, which loses messages when a node dies, is faster,
and queues that have it are refused. Measured until the last record has succeeded.

*As long* is the same program whose messages say as much as the actor's: the record's position in id and text, two times, the type of the error, where it was tried. What an actor costs beyond that is the actor's; the rest is the price of a message that a person can read in RabbitMQ's own page.`

// retryDelay is how long a failure waits.
const retryDelay = 100 * time.Millisecond

// defaultDelay is that of an actor that sets none.
const defaultDelay = 5 * time.Second

// delayQueues is how many a delay has in the case that shows what more than one bring.
const delayQueues = 4

var errFirstTry = errors.New("the first try fails")

func failureGroup() group {
	small := feed{Partitions: 8, ValueBytes: 100, Keys: 1000}
	large := feed{Partitions: 8, ValueBytes: 1024, Keys: 1000}
	g := group{name: "failure", title: "What failures cost", text: failureText, columns: append(usual(), brokerCPU(), brokerOfBase())}
	add := func(suffix string, every int64, share float64, f feed, bars ...bar) {
		what := fmt.Sprintf("%d %% fail, %d B", 100/every, f.ValueBytes)
		hand := "hand" + suffix
		g.cases = append(g.cases,
			benchCase{name: hand, what: "hand-written, " + what, feed: f, share: share, rabbitmq: true, run: byHand(every, 1000)},
			benchCase{name: "stepwell" + suffix, what: "actor, " + what, base: hand, feed: f, share: share, rabbitmq: true, run: stepwellFails(every), bars: bars})
	}
	tenth := []bar{atLeast(0.95, ofBase()), atMost(1.3, cpuOfBase()), atMost(1.05, brokerOfBase())}
	add("-10", 10, 0.12, small, tenth...)
	g.cases = append(g.cases,
		benchCase{name: "one-by-one-10", what: "hand-written, waits for each confirm, 10 % fail, 100 B", base: "hand-10",
			feed: small, share: 0.005, rabbitmq: true, run: byHand(10, 1)},
		benchCase{name: "watermill-10", what: "watermill, poison queue on RabbitMQ (confirmed, no delay), 10 % fail, 100 B", base: "hand-10",
			feed: small, share: 0.01, rabbitmq: true, run: poisonQueue(10)},
		benchCase{name: "stepwell-10-warm", what: "actor, HANDLER_TIMEOUT=10s: a full prefetch from the first second, 10 % fail, 100 B", base: "hand-10",
			feed: small, share: 0.12, rabbitmq: true, run: stepwellFails(10, "HANDLER_TIMEOUT=10s")})
	asLong := func(suffix string, every int64, share float64) {
		g.cases = append(g.cases, benchCase{name: "as-long" + suffix, what: fmt.Sprintf("hand-written, messages as long as the actor's, %d %% fail, 100 B", 100/every), base: "hand" + suffix,
			feed: small, share: share, rabbitmq: true, run: byHandSaying(every, 1000, asTheActor)})
	}
	asLong("-10", 10, 0.12)
	add("-10-1k", 10, 0.04, large)
	add("-1", 100, 0.3, small, atLeast(0.9, ofBase()))
	g.cases = append(g.cases, benchCase{name: "stepwell-1-warm", what: "actor, HANDLER_TIMEOUT=10s, 1 % fail, 100 B", base: "hand-1",
		feed: small, share: 0.3, rabbitmq: true, run: stepwellFails(100, "HANDLER_TIMEOUT=10s")})
	add("-100", 1, 0.03, small, atLeast(0.95, ofBase()), atMost(1.05, brokerOfBase()))
	asLong("-100", 1, 0.03)
	g.cases = append(g.cases, benchCase{name: "stepwell-100-queues", what: fmt.Sprintf("actor, RETRY_DELAY_QUEUES=%d, 100 %% fail, 100 B", delayQueues), base: "hand-100",
		feed: small, share: 0.03, rabbitmq: true, run: stepwellFails(1, fmt.Sprint("RETRY_DELAY_QUEUES=", delayQueues))})
	return g
}

// fails says which tries of which records do.
func fails(every, offset int64, attempt int) bool { return attempt == 1 && offset%every == 0 }

func stepwellFails(every int64, more ...string) func(context.Context, job, *meter) error {
	return func(ctx context.Context, j job, m *meter) (err error) {
		q, err := openQueues(j, retryDelay)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, q.delete()) }()
		settings := append([]string{"RETRY_DELAY=" + retryDelay.String()}, more...)
		return runActor(ctx, j, func(_ context.Context, msg *stepwell.Message) error {
			if msg.Attempt == 1 {
				m.ordered(msg.Origin.Partition, msg.Origin.Offset)
			}
			if fails(every, msg.Origin.Offset, msg.Attempt) {
				return errFirstTry
			}
			m.once(msg.Origin.Partition, msg.Origin.Offset)
			return nil
		}, settings...)
	}
}
