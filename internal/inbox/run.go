package inbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/task"
)

// Handle works on one message. Its context lives through a stop, for the drain, and through lost
// connections to the broker: the result is then remembered for when the message is handed out
// again. An Outcome that was forgotten counts as [task.Abandoned].
type Handle func(ctx context.Context, m *stepwell.Message, t Ticket) task.Outcome

// run is one Run of an Inbox.
type run struct {
	*Inbox
	stop, work context.Context
	handle     Handle
	// end ends stop, for a handler that ended its goroutine.
	end context.CancelFunc
	// failed has the errors of handlers that ended their goroutines. There is room for one of each
	// worker, so that none of them waits.
	failed chan error
	// life is that of the session whose delivery came last, and its work the [delivery.work] of its
	// deliveries. Only offer has them.
	life, itsWork context.Context
}

// Run calls handle for each message that comes to the queue, until stop ends. It returns when all
// calls have, and is nil for a stop that was asked for. When work ends, calls are cancelled and
// what is not settled goes back; the error names one that does not return within Grace then. A
// handle that ends its goroutine with runtime.Goexit ends the run with an error.
func (in *Inbox) Run(stop, work context.Context, handle Handle) error {
	if in.cfg.Gather != nil {
		in.gather(stop, work, stop) // until there is a session
	}
	stop, end := context.WithCancel(stop)
	defer end()
	r := &run{Inbox: in, stop: stop, work: work, handle: handle, end: end, failed: make(chan error, in.cfg.Workers)}
	// As many may wait as there are workers: one that is done finds the next without a switch to
	// whoever offers it.
	deliveries := make(chan delivery, in.cfg.Workers)
	var workers sync.WaitGroup
	for number := range in.cfg.Workers {
		w := &worker{run: r, number: number}
		workers.Go(func() { w.serve(deliveries) })
	}
	err := in.cfg.Broker.Consume(stop, work, queue.Consumption{
		Queue:    in.cfg.Queue,
		Prefetch: in.prefetch, Another: in.another,
		Told:    func(n int) { in.ahead.Store(int64(n)) },
		Handle:  func(ctx context.Context, d queue.Delivery) bool { return r.offer(ctx, deliveries, d) },
		Paused:  in.paused.Load,
		Changed: in.changed, Foreign: in.cfg.Foreign,
	})
	failed := err != nil && stop.Err() == nil
	// Consume has returned, so that nobody offers any more, and what waits need not wait on, also
	// where no stop was asked for. Each wait is for what the one before it may still begin: workers
	// for deliveries, trials for workers.
	end()
	close(deliveries)
	hangs := r.await(&workers)
	in.suspects.trials.Wait()
	if !failed {
		err = nil
	}
	if len(r.failed) > 0 {
		err = <-r.failed
	}
	return errors.Join(err, hangs) // each names the queue
}

// await waits for the workers. One whose handler does not return though it was cancelled is left
// behind, since the stop has other things to do.
func (r *run) await(workers *sync.WaitGroup) error {
	done := make(chan struct{})
	go func() {
		workers.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-r.work.Done():
	}
	select {
	case <-done:
	case <-time.After(r.cfg.Grace):
		c := r.slow.oldest()
		if c.Began.IsZero() { // no handler is to blame: all else that is waited for has a bound
			<-done
			return nil
		}
		return fmt.Errorf("consume %s: a handler did not return though it was cancelled; it has message %s (attempt %d)", r.cfg.Queue, c.ID, c.Attempt)
	}
	return nil
}

// offer moves a delivery that is not for the handler on, and waits for a worker with any other.
// What no worker took the consumer gives back, but for the copy of a suspect that names a process:
// given back, that would tell of a death.
func (r *run) offer(ctx context.Context, workers chan<- delivery, came queue.Delivery) bool {
	d := delivery{came, r, r.workOf(came.Life)}
	if ctx.Err() != nil || r.paused.Load() {
		return r.suspects.notTaken(d)
	}
	r.largest.saw(d.Size())
	switch to, m, divert := r.cfg.Divert(ctx, came); {
	case ctx.Err() != nil:
		return r.suspects.notTaken(d)
	case divert:
		r.inFlight.Add(1)
		d.move(to, m, nil)
		return true
	}
	select {
	case workers <- d:
		return true
	case <-ctx.Done():
		return r.suspects.notTaken(d)
	}
}

// workOf is the [delivery.work] of a session's deliveries.
func (r *run) workOf(life context.Context) context.Context {
	if life != r.life {
		work, end := context.WithCancel(r.work)
		context.AfterFunc(life, end)
		r.life, r.itsWork = life, work
		if r.cfg.Gather != nil {
			r.gather(r.stop, r.work, life)
		}
	}
	return r.itsWork
}
