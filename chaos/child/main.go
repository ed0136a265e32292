// Command child is the actor that the chaos tests kill: what it does with a record depends on the
// record alone, and each call is in the ledger before its handler returns.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
	"github.com/stepwell/stepwell/chaos/ledger"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/rabbit"
)

// The variables that are not the actor's own.
const (
	ledgerVariable = "CHAOS_LEDGER"
	proxyVariable  = "CHAOS_KAFKA_PROXY" // an address that every connection to Kafka goes to
	slowVariable   = "CHAOS_SLOW"        // how long some of the records take, each time
	everyVariable  = "CHAOS_SLOW_EVERY"  // two of how many are slow; a multiple of 40, default 400
	batchVariable  = "CHAOS_BATCH"       // anything: messages are handled in batches
	jobsVariable   = "CHAOS_JOBS"        // anything: each record is enqueued as a job, which is the work
	sourceVariable = "CHAOS_SOURCE"      // classic or quorum: each record goes through a queue of that type that is none of ours
	failVariable   = "CHAOS_FAIL_EVERY"  // one of so many fails twice, and no other fails; default: as work says
)

// What ends the value of a record that ends the process in that attempt, hangs in it, or asks for a
// long wait.
const (
	killer = " kills %d"
	hanger = " hangs %d"
	waiter = " waits %d"
)

// longWait goes down several delay queues.
const longWait = 13500 * time.Millisecond

// hang is how long what hangs does so, whatever its context says.
const hang = 25 * time.Second

// What is snoozed is so until it is that old, each time for a part of that.
const snoozed, snooze = 2 * time.Second, 700 * time.Millisecond

func main() {
	clock()
	w, err := ledger.Append(os.Getenv(ledgerVariable))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	h := habits{slowEvery: number(everyVariable, 400), failEvery: number(failVariable, 0)}
	h.pause, _ = time.ParseDuration(os.Getenv(slowVariable)) // none is zero
	orders := actor.Stream{Handler: handler(w, h), Channels: actor.Channels{ledger.Channel: {Handler: handler(w, h)}}}
	if os.Getenv(batchVariable) != "" {
		orders.Handler, orders.Batch = nil, inTurn(handler(w, h), os.Getenv("RETRY_IN_PLACE") != "")
	}
	app := actor.App{Streams: actor.Streams{"orders": orders}}
	if os.Getenv(jobsVariable) != "" {
		asJobs(&app, w, handler(w, h))
	}
	if kind := os.Getenv(sourceVariable); kind != "" {
		asSource(&app, w, handler(w, h), kind)
	}
	if through := os.Getenv(proxyVariable); through != "" {
		app.Brokers = newBrokers(through)
	}
	actor.Main(app)
}

var (
	errFlaky = errors.New("flaky")
	errBad   = errors.New("bad")
)

// number is a variable's, or the default where it has none.
func number(variable string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(variable)); err == nil {
		return n
	}
	return otherwise
}

// habits say which records take long, and which fail.
type habits struct {
	pause                time.Duration
	slowEvery, failEvery int
}

// handler writes down that a call begins, works, and writes down how it ends.
func handler(w *ledger.Writer, h habits) stepwell.Handler {
	return func(ctx context.Context, m *stepwell.Message) error {
		e, err := entry(m)
		if err != nil {
			return err
		}
		if err := w.Write(e); err != nil {
			panic(err)
		}
		switch {
		case is(killer, m):
			time.Sleep(30 * time.Millisecond) // others are under way
			os.Exit(1)
		case is(hanger, m):
			time.Sleep(hang)
		}
		age := time.Since(m.Time)
		verdict := work(ctx, e, h, age >= 0 && age < snoozed)
		if is(waiter, m) {
			verdict = stepwell.RetryAfter(errFlaky, longWait)
		}
		e.Kind = kind(verdict)
		if err := w.Write(e); err != nil {
			panic(err)
		}
		return verdict
	}
}

// inTurn handles the messages of a batch one after another, and marks what failed. With inOrder it
// puts off what comes after one of its key that is not done: within a batch that is its handler's.
func inTurn(handle stepwell.Handler, inOrder bool) stepwell.BatchHandler {
	return func(ctx context.Context, b *stepwell.Batch) error {
		waits := map[string]bool{}
		for _, m := range b.Messages() {
			key := string(m.Key)
			if waits[key] {
				b.Fail(m, stepwell.Snooze(stepwell.ShortestSnooze))
				continue
			}
			if err := handle(ctx, m); err != nil {
				waits[key] = inOrder
				b.Fail(m, err)
			}
		}
		return nil
	}
}

// is says whether this attempt of the message is of that kind.
func is(kind string, m *stepwell.Message) bool {
	return bytes.HasSuffix(m.Value, fmt.Appendf(nil, kind, m.Attempt))
}

// entry is the beginning of a call. Key and value are numbers, the value with some weight behind
// it.
func entry(m *stepwell.Message) (ledger.Entry, error) {
	number, _, _ := bytes.Cut(m.Value, []byte(" "))
	sequence, err := strconv.Atoi(string(number))
	key, keyErr := strconv.Atoi(string(m.Key))
	return ledger.Entry{
		Position: ledger.Position{Partition: m.Origin.Partition, Offset: m.Origin.Offset},
		Key:      key, Sequence: sequence, Attempt: m.Attempt, Replays: m.Replays, Channel: m.Channel != "", Kind: ledger.Began, Edit: ledger.EditOf(m.ID),
	}, errors.Join(err, keyErr)
}

// work is what the record demands: of 40 records ten fail twice, and one of these asks for a wait
// that goes through two queues, one is handed over then; one fails until it is replayed, one is
// dead until then and one is skipped, one is handed over at once, one is snoozed while it is young;
// one that succeeds and one that fails twice are slow.
func work(ctx context.Context, e ledger.Entry, h habits, young bool) error {
	pause := time.Millisecond
	if n := e.Sequence % h.slowEvery; n == 33 || n == 35 {
		pause = max(pause, h.pause)
	}
	select {
	case <-time.After(pause):
	case <-ctx.Done():
		return ctx.Err()
	}
	if h.failEvery > 0 {
		if e.Sequence%h.failEvery == 3 && e.Attempt <= 2 {
			return errFlaky
		}
		return nil
	}
	return verdict(e, young)
}

func verdict(e ledger.Entry, young bool) error {
	if e.Channel {
		return inChannel(e)
	}
	switch n := e.Sequence % 40; {
	case n == 25, n == 15 && e.Attempt == 3:
		return stepwell.To(ledger.Channel)
	case n == 7 && e.Attempt == 1:
		return stepwell.RetryAfter(errFlaky, 1500*time.Millisecond)
	case n%4 == 3 && e.Attempt <= 2:
		return errFlaky
	case n == 10 && e.Replays == 0:
		return errBad
	case n == 20 && e.Replays == 0:
		return stepwell.DeadLetter(errBad)
	case n == 30:
		return stepwell.Skip("not wanted")
	case n == 22 && young:
		return stepwell.Snooze(snooze)
	}
	return nil
}

// inChannel is what a record demands of the channel: one of ten dies there, others fail twice or
// not.
func inChannel(e ledger.Entry) error {
	switch n := e.Sequence / 40 % 10; {
	case n == 3:
		return stepwell.DeadLetter(errBad)
	case n%2 == 0 && e.Attempt <= 2:
		return errFlaky
	}
	return nil
}

func kind(verdict error) ledger.Kind {
	if errors.Is(verdict, context.Canceled) {
		return ledger.Cancelled
	}
	switch stepwell.VerdictOf(verdict).Kind {
	case stepwell.Done:
		return ledger.Done
	case stepwell.Dead:
		return ledger.Dead
	case stepwell.Skipped:
		return ledger.Skipped
	case stepwell.HandedOver:
		return ledger.HandedOver
	case stepwell.Snoozed:
		return ledger.Snoozed
	default:
		return ledger.Failed
	}
}

// brokers are those that the environment names, but Kafka is reached through a proxy, whatever
// address it gives itself, and connections to RabbitMQ tell whose they are.
type brokers struct {
	through string
	rabbit  *rabbit.Broker
}

func newBrokers(through string) *brokers {
	timeout, _ := time.ParseDuration(os.Getenv("RABBITMQ_CONFIRM_TIMEOUT")) // none: the default
	return &brokers{through, rabbit.New(rabbit.Config{
		URLs: []string{os.Getenv("RABBITMQ_URL")}, ConnectionName: fmt.Sprintf("%s %d", os.Getenv("APP_NAME"), os.Getpid()), ConfirmTimeout: timeout,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})}
}

func (b *brokers) Run(ctx context.Context) error { return b.rabbit.Run(ctx) }
func (b *brokers) Queues() queue.Broker          { return b.rabbit }
func (b *brokers) Notice() string                { return "Kafka is reached through a proxy" }

func (b *brokers) Kafka(context.Context) ([]kgo.Opt, error) {
	return []kgo.Opt{
		kgo.SeedBrokers(b.through),
		kgo.Dialer(func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{Timeout: 3 * time.Second}).DialContext(ctx, network, b.through)
		}),
	}, nil
}
