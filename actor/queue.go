package actor

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/config"
	"github.com/stepwell/stepwell/internal/inbox"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/task"
	"github.com/stepwell/stepwell/retry"
	"github.com/stepwell/stepwell/server"
)

// intake is a stream's source in RabbitMQ: a queue of somebody else's, or one of its own that is
// bound to an exchange of somebody else's. It has no positions: each message is acked when it is
// done, or confirmed elsewhere.
type intake struct {
	*retry.Intake
	// spec is the queue. One without an exchange is somebody else's, and is never made here.
	spec   queue.Spec
	broker queue.Broker
	handle retry.Handle
	// batches gathers the messages; nil: they are handled one by one.
	batches *batches
	log     *slog.Logger
	// waits is why nothing is consumed; nil: it is. It begins with what the queue is not known to
	// be yet.
	waits atomic.Pointer[string]
}

// mostHandedOut is how many messages of a quorum queue RabbitMQ hands out at once. The
// configuration sees to it that two batches of each caller fit.
const mostHandedOut = 2000

// newIntake is for a line with retries.
func newIntake(l *line, name string) *intake {
	i := &intake{spec: sourceQueue(&l.cfg, name), broker: l.broker, handle: l.dispatch.fromQueue, batches: l.batches, log: l.log}
	var gather *inbox.Gather
	if i.batches != nil {
		gather = &inbox.Gather{
			// While one runs, one is gathered, and one is on its way.
			Messages: min(3*l.cfg.Batch.Size*l.cfg.Concurrency, mostHandedOut),
			Full:     i.batches.Flush,
		}
		i.handle = func(ctx context.Context, m *stepwell.Message, t retry.Ticket) task.Outcome {
			return i.batches.gather(ctx, m, t.Ticket.Ticket)
		}
	}
	i.Intake = l.dispatch.retrier.Intake(name, l.seats.First(), gather)
	i.waitsFor("has not looked at queue " + name + " yet")
	return i
}

// sourceQueue is the queue that a stream consumes.
func sourceQueue(of *config.Stream, name string) queue.Spec {
	return queue.Spec{Name: name, Kind: queue.Source, Exchange: of.Exchange, Keys: of.RoutingKeys}
}

// Run consumes the queue until stop ends. One that is missing, or no queue that can be consumed,
// may be made anew by its owner at any time: it is looked at again and again.
func (i *intake) Run(stop, work context.Context) error {
	if !i.await(stop) {
		return nil
	}
	i.log.Info("a queue is consumed", "queue", i.spec.Name)
	return i.consume(stop, work)
}

func (i *intake) consume(stop, work context.Context) error {
	run := func(stop, work context.Context) error { return i.Intake.Run(stop, work, i.handle) }
	if i.batches == nil {
		return run(stop, work)
	}
	return i.batches.run(stop, work, func(stop, work context.Context) error {
		// A batch that is not full is called at a stop, and does not wait for more.
		defer context.AfterFunc(stop, i.batches.Flush)()
		return run(stop, work)
	})
}

// Pause has nothing be picked up, and gives back what was not called.
func (i *intake) Pause() {
	if i.batches == nil {
		i.Intake.Pause()
		return
	}
	i.batches.Pause() // first: what is given up below is not to be called
	i.Intake.Pause()
	i.batches.Flush()
}

// Resume ends a pause.
func (i *intake) Resume() {
	i.Intake.Resume()
	if i.batches != nil {
		i.batches.Resume()
	}
}

// await waits until the queue can be consumed; false: stop ended.
func (i *intake) await(stop context.Context) bool {
	const pause = 5 * time.Second
	for said := ""; ; {
		err := i.look(stop)
		switch {
		case err == nil:
			i.waits.Store(nil)
			return true
		case stop.Err() != nil:
			return false
		default:
			i.waitsFor(i.why(err))
		}
		if why := *i.waits.Load(); why != said { // the probe says it each time, the log once
			said = why
			i.log.Error("the stream has no queue to consume", "reason", said)
		}
		if !task.Sleep(stop, pause) {
			return false
		}
	}
}

// look has the queue made and bound where it is the stream's own; else it asks whether it can be
// consumed.
func (i *intake) look(ctx context.Context) error {
	if i.spec.Exchange != "" {
		return i.broker.Declare(ctx, []queue.Spec{i.spec})
	}
	return i.broker.Examine(ctx, i.spec.Name)
}

// why says what a look has found wrong.
func (i *intake) why(err error) string {
	switch {
	case errors.Is(err, queue.ErrMissing) && i.spec.Exchange != "":
		return "waits for exchange " + i.spec.Exchange + ", which does not exist"
	case errors.Is(err, queue.ErrMissing):
		return "waits for queue " + i.spec.Name + ", which does not exist"
	}
	return err.Error()
}

func (i *intake) waitsFor(why string) { i.waits.Store(&why) }

// Status is that of what was picked up. The depth of the queue is asked for elsewhere, since no
// broker is asked here, and is no sign of a standstill: others may consume the queue too. Nor is
// that something is under way: a call that hangs is seen by itself, as one of a retry is.
func (i *intake) Status() (s sourceStatus) {
	of := i.Intake.Status()
	s.Status, s.Held, s.Call = server.Status{InFlight: of.InFlight}, true, of.Oldest
	s.Says = "consumes queue " + i.spec.Name
	s.Waits = i.broker.Trouble(i.spec.Name) // since it began to be consumed
	if !i.broker.Status().Up {
		s.Waits = "waits for RabbitMQ"
	}
	if why := i.waits.Load(); why != nil {
		s.Waits = *why
	}
	return s
}
