package streams

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stepwell/stepwell/internal/task"
)

// Run reads until stop ends. Then it fetches no more, waits for the calls that run and for what is
// pending while work lives, commits, leaves the group and returns nil. When work ends, running
// calls are cancelled with its cause, and what is settled by then is still committed; that takes a
// few seconds at most. An error means that the group refuses us for good, that a handler ended its
// goroutine, or that one did not return though it was cancelled. A reader runs once.
func (r *Reader) Run(stop, work context.Context) error {
	if r.started.Swap(true) {
		return errors.New("streams: the reader has run already")
	}

	life, end := context.WithCancel(context.WithoutCancel(work))
	defer end()
	r.life = life
	if err := r.clients.open(life, r.options); err != nil {
		return err
	}
	r.status.connects(r.clients.member())

	reading, stopReading := context.WithCancelCause(life)
	defer stopReading(nil)
	defer context.AfterFunc(stop, func() { stopReading(nil) })()
	defer context.AfterFunc(work, func() {
		stopReading(nil)
		r.parts.cancel(shutdownCause(work))
	})()
	committing, stopCommitting := context.WithCancel(life)
	defer stopCommitting()
	working, dismiss := context.WithCancel(life)
	defer dismiss()

	var reader, rest sync.WaitGroup
	for _, f := range r.clients.all {
		reader.Go(func() { stopReading(r.intake.poll(reading, f)) })
	}
	rest.Go(func() { r.commits.run(committing) })
	rest.Go(func() { r.watch.supervise(reading) })
	rest.Go(func() { r.clients.wakeAlways(reading) })
	r.parts.workers.Go(func() { r.crew.Run(working) })
	select {
	case <-reading.Done():
	case <-r.crew.Failed():
		stopReading(nil)
	}
	reader.Wait()
	r.gate.end()
	cause := context.Cause(reading)

	err := r.wind(work)
	stopCommitting()
	r.commitLast(work)
	rest.Wait()
	err = errors.Join(r.crew.Err(), err)
	r.leave(work, dismiss)
	if fatal := new(fatalError); errors.As(cause, &fatal) {
		err = errors.Join(fatal, err)
	}
	return err
}

// wind lets what runs come to its end.
func (r *Reader) wind(work context.Context) error {
	r.parts.close()
	r.rebalances.drain(work, r.parts.all(), shutdownCause(work), r.cfg.Group.grace())
	for _, p := range r.parts.all() {
		if !p.isDone() {
			return fmt.Errorf("stream %s: a handler of %s/%d did not return though it was cancelled%s", r.cfg.Stream, p.topic, p.partition, hangsAt(p))
		}
	}
	return nil
}

// hangsAt says where a handler hangs, as far as that is known.
func hangsAt(p *partition) string {
	o, open := p.oldestOpen()
	if !open {
		return ""
	}
	return fmt.Sprintf("; the first record there that is not done is %s:%d:%d", o.Topic, o.Partition, o.Offset)
}

// commitLast commits what is settled by now. Where the group does not take it, since it is just
// being told what was assigned, it is asked again for a moment.
func (r *Reader) commitLast(work context.Context) {
	limit, cancel := lastingAfter(r.life, work, r.cfg.Group.LeaveTimeout/2)
	defer cancel()
	for began := time.Now(); !r.commits.commit(limit, r.parts.all()) && time.Since(began) < r.cfg.Group.LeaveTimeout/2 && task.Sleep(limit, holdsAfter); {
	}
}

// leave gives everything up, leaves the group and dismisses the crew.
func (r *Reader) leave(work context.Context, dismiss func()) {
	r.gate.change(func() { r.parts.drop(r.parts.all(), shutdownCause(work)) }) // what the clients read counts no more, and they end
	r.clients.leaveGroup()
	r.clients.close()
	r.clients.purges.Wait()
	dismiss()
	for _, p := range r.parts.left() {
		if !p.isDone() {
			return // told by wind; it cannot be waited for
		}
	}
	r.parts.workers.Wait()
}

// shutdownCause is the cause with which work ended, ErrShutdown where it tells none.
func shutdownCause(work context.Context) error {
	if cause := context.Cause(work); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return ErrShutdown
}

// lastingAfter returns a context that ends when work has been over for so long, but not before it
// has had that time.
func lastingAfter(life, work context.Context, rest time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(life)
	stop := context.AfterFunc(work, func() {
		select {
		case <-time.After(rest):
			cancel()
		case <-ctx.Done():
		}
	})
	return ctx, func() { stop(); cancel() }
}

// fatalError ends Run: trying again cannot help.
type fatalError struct{ err error }

func (e *fatalError) Error() string { return e.err.Error() }
func (e *fatalError) Unwrap() error { return e.err }
