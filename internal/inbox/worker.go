package inbox

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/task"
)

// worker is a goroutine that takes deliveries, one at a time. It is the [task.Call] of its calls.
type worker struct {
	*run
	number int
	// began is when the call that runs began.
	began time.Time
	// calls is the job whose handler runs; nil: none does. It tells the deferred function of serve
	// which message ended the goroutine.
	calls *job
}

// serve works until there are no more deliveries. A handler may end its goroutine with
// runtime.Goexit, as the Fatal of a test does, which nothing can stop: that ends the run. A panic
// passes.
func (w *worker) serve(deliveries <-chan delivery) {
	regular := false
	defer func() {
		if regular {
			return
		}
		if p := recover(); p != nil {
			panic(p)
		}
		// First the error, then the end of the run, which makes Run look for it; then the message.
		w.failed <- fmt.Errorf("consume %s: the handler ended its goroutine with runtime.Goexit, which stops the actor; it had message %s, of which that counts as a death",
			w.cfg.Queue, w.calls.envelope.Message.ID)
		w.end()
		w.calls.deserted()
		for d := range deliveries { // those that waited for a worker
			w.inFlight.Add(1)
			w.suspects.giveBack(d)
		}
	}()
	for d := range deliveries {
		w.inFlight.Add(1)
		w.pick(d)
	}
	regular = true
}

// pick finds out what a delivery is.
func (w *worker) pick(d delivery) {
	// It may have waited for this worker since before the stop, or the pause.
	if w.stop.Err() != nil || w.paused.Load() {
		w.suspects.giveBack(d)
		return
	}
	if d.isOver() { // or since before its session ended: it was handed out again
		d.release()
		return
	}
	e, err := w.cfg.Owner.Decode(d.Delivery)
	if err != nil {
		d.unreadable(err)
		return
	}
	w.take(d, e)
}

// take handles a message, unless it is a suspect whose turn is not now, or a repeat.
func (w *worker) take(d delivery, e *envelope.Envelope) {
	j := &job{delivery: d, envelope: e}
	over, ok := w.suspects.admit(&j.delivery, e)
	if !ok {
		return
	}
	if over != nil {
		// Once the call has returned, or none is made: the token goes to the next suspect soon.
		defer func() { over(w.calls == nil) }()
	}
	j.try, j.alone = w.memory.try(e), over != nil
	if !w.memory.begin(j.try, &j.delivery) {
		return
	}
	switch reason, err := w.cfg.Owner.Complete(w.stop, e); {
	case reason != "":
		w.cfg.Owner.Bury(w.work, e, reason, err.Error(), j.parked)
	case err != nil:
		j.incomplete(err)
	default:
		if outcome := w.call(j); outcome != task.Pending && outcome != task.Gathered {
			j.end(outcome == task.Settled)
		}
	}
}

// call waits for a seat and calls the handler. To wait counts as part of the call: prefetched
// deliveries wait for both. A message that is not called because of a stop or a pause goes back.
func (w *worker) call(j *job) task.Outcome {
	w.slow.begin(w.number)
	defer w.slow.end(w.number)
	if !w.cfg.Seats.Take(w.stop.Done()) {
		return task.Abandoned
	}
	defer w.cfg.Seats.Leave()
	// A pause may have begun while this worker waited for the seat, or the session ended.
	if w.paused.Load() || j.delivery.isOver() {
		return task.Abandoned
	}
	m := j.envelope.Message // the handler's own, with a list of headers
	m.Headers = slices.Clone(m.Headers)
	w.calls, w.began = j, time.Now()
	if w.cfg.Gather == nil { // else it only joins others
		w.slow.called(w.number, Call{m.ID, m.Attempt, w.began})
	}
	t, held := task.NewTicket(j, 0, w), 0
	if g := w.gathering.Load(); g != nil {
		t, held = g.add(j, w)
	}
	outcome := w.handle(w.work, &m, Ticket{t, j})
	if g := w.cfg.Gather; g != nil && held >= min(int(w.ahead.Load()), w.prefetch()) {
		g.Full()
	}
	w.calls = nil
	took := time.Since(w.began)
	w.cfg.Ended(w.cfg.FirstLane+w.number, took, took)
	return outcome
}

// Running is the number of the worker among all who call the same handler, and when its call began.
func (w *worker) Running() (lane int, began time.Time) { return w.cfg.FirstLane + w.number, w.began }

// Rest only waits: a delivery must be settled before the broker's consumer time-out.
func (w *worker) Rest(ctx context.Context, _ int64, d time.Duration, _ *stepwell.Message) bool {
	return task.Sleep(ctx, d)
}

// RestUntil only waits, too.
func (w *worker) RestUntil(ctx context.Context, _ int64, over <-chan struct{}, _ *stepwell.Message) {
	task.Wait(ctx, over)
}
