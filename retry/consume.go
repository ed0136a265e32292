package retry

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/queue"
)

// Outcome says what a [Handle] did with a message. One that was forgotten counts as Abandoned.
type Outcome int

const (
	// Settled is for a message that is done; it leaves its queue.
	Settled Outcome = iota + 1
	// Pending is for one whose ticket will be settled or failed, or was already.
	Pending
	// Abandoned is for one without a verdict. It goes back to its queue as if it had not been tried.
	Abandoned
)

// Handle works on one message. Its context lives through a stop, for the drain, and through lost connections to the broker: the result
// is then remembered for when the message is handed out again.
type Handle func(ctx context.Context, m *stepwell.Message, t Ticket) Outcome

// Run declares the queues, unless Declare has, and calls handle for each message that comes to the instant queue, until stop ends;
// it returns when all calls have, and is nil for a stop that was asked for. When work ends, calls are cancelled and what is not
// settled goes back.
func (r *Retrier) Run(stop, work context.Context, handle Handle) error {
	if !r.declared.Load() {
		if err := r.Declare(stop); err != nil {
			return asked(stop, err)
		}
	}
	jobs := make(chan queue.Delivery)
	var workers sync.WaitGroup
	for number := range r.cfg.Workers {
		w := &worker{retrier: r, number: number, all: &workers}
		workers.Go(func() {
			w.run(jobs, func(d queue.Delivery) { r.pick(stop, work, w, d, handle) })
		})
	}
	err := r.cfg.Broker.Consume(stop, work, queue.Consumption{
		Queue: r.topology.Instant,
		Prefetch: func() int {
			return prefetch(r.cfg.Workers, r.cfg.Prefetch, r.cfg.ConsumerTimeout, r.slow.now())
		},
		Handle:  func(ctx context.Context, d queue.Delivery) bool { return r.offer(ctx, jobs, d) },
		Paused:  r.paused.Load,
		Changed: r.changed,
	})
	close(jobs)
	workers.Wait()
	r.trials.Wait()
	if err != nil {
		return asked(stop, fmt.Errorf("consume %s: %w", r.topology.Instant, err))
	}
	return nil
}

// asked drops the error of a stop that was asked for.
func asked(stop context.Context, err error) error {
	if stop.Err() != nil {
		return nil
	}
	return err
}

// offer waits for a worker. A delivery that no worker took is the broker's to give back.
func (r *Retrier) offer(ctx context.Context, jobs chan<- queue.Delivery, d queue.Delivery) bool {
	if ctx.Err() != nil || r.paused.Load() {
		return false
	}
	select {
	case jobs <- d:
		return true
	case <-ctx.Done():
		return false
	}
}

// pick is a worker's turn with one delivery.
func (r *Retrier) pick(stop, work context.Context, w *worker, d queue.Delivery, handle Handle) {
	r.inFlight.Add(1)
	if work.Err() != nil {
		r.release(d)
		return
	}
	r.cameFrom(d.From)
	e, err := envelope.Decode(d.Message)
	if err != nil {
		r.unreadable(stop, work, d, err)
		return
	}
	if !e.DiedAt.IsZero() {
		// Somebody moved it here from the dead set. As it is it would be a repeat of the try that it
		// died of, and acked without a call.
		e.Replay()
	}
	e.Message.Stream = r.cfg.Stream
	left, ok := r.admit(stop, work, &d, e)
	if !ok {
		return
	}
	defer left()
	j := &job{retrier: r, stop: stop, work: work, delivery: d, envelope: e, try: r.memory.try(e)}
	if !r.memory.begin(j.try, func(settled bool) { r.repeated(d, settled) }) {
		return
	}
	if e.Pointer && !r.fetch(stop, j) {
		return
	}
	if outcome := r.call(stop, work, w, j, handle); outcome != Pending {
		j.end(outcome == Settled)
	}
}

// call waits for a seat and calls the handler. To wait counts as part of the call: prefetched messages wait for both. A message that is not called
// because of a stop or a pause goes back.
func (r *Retrier) call(stop, work context.Context, w *worker, j *job, handle Handle) Outcome {
	r.slow.begin(w.number)
	defer r.slow.end(w.number)
	if !r.cfg.Seats.Take(stop.Done()) {
		return Abandoned
	}
	defer r.cfg.Seats.Leave()
	if r.paused.Load() {
		return Abandoned
	}
	m := j.envelope.Message // the handler's own, with a list of headers
	m.Headers = slices.Clone(m.Headers)
	w.calls = j
	outcome := handle(work, &m, Ticket{j})
	w.calls = nil
	return outcome
}

// repeated is a delivery whose try runs or ran already.
func (r *Retrier) repeated(d queue.Delivery, settled bool) {
	if !settled {
		r.release(d) // it is handed out again, and then runs
		return
	}
	r.cfg.Telemetry.Duplicate()
	r.ack(d)
}

func (r *Retrier) ack(d queue.Delivery) {
	d.Ack()
	r.inFlight.Add(-1)
}

func (r *Retrier) release(d queue.Delivery) {
	d.Release()
	r.inFlight.Add(-1)
}
