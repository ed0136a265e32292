package retry

import (
	"context"
	"errors"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/queue"
)

// upgradeTime is how long messages of a newer version are sent around, so that a newer program of a rolling upgrade finds them.
const upgradeTime = time.Hour

// unreadable parks a delivery that could not be decoded: unchanged in the shortest delay queue while it may be of a newer version,
// else in the dead set as it is.
func (r *Retrier) unreadable(stop, work context.Context, d queue.Delivery, problem error) {
	now := time.Now()
	if errors.Is(problem, envelope.ErrVersion) {
		m, since := envelope.Unreadable(d.Message, now)
		if name, ok := r.topology.Shortest(); ok && now.Sub(since) < upgradeTime {
			if since.Equal(now) {
				r.cfg.Logger.Warn("message of a newer version: it waits up to an hour for a program that can read it", "queue", d.Queue, "id", d.ID)
			}
			r.publisher.Publish(work, name, m, func(err error) { r.unread(stop, work, d, err) })
			return
		}
	}
	f := envelope.Failure{Reason: stepwell.ReasonUndecodable, Error: problem.Error(), At: now}
	r.publisher.Publish(work, r.topology.DeadSet, envelope.Broken(d.Message, f), func(err error) {
		if errors.Is(err, queue.ErrTooLarge) { // the body was not too large when it came, so the headers are
			bare := envelope.Broken(queue.Message{ID: d.ID, Body: d.Body}, f)
			r.publisher.Publish(work, r.topology.DeadSet, bare, func(err error) { r.buried(stop, work, d, problem, err) })
			return
		}
		r.buried(stop, work, d, problem, err)
	})
}

// buried is called when an undecodable message is in the dead set, or could not be put there.
func (r *Retrier) buried(stop, work context.Context, d queue.Delivery, problem, err error) {
	if err == nil {
		r.died(Death{ID: d.ID, Reason: stepwell.ReasonUndecodable, Error: problem.Error()})
	}
	r.unread(stop, work, d, err)
}

func (r *Retrier) unread(stop, work context.Context, d queue.Delivery, err error) {
	if err != nil {
		r.later(stop, work, d, err, func() { r.release(d) })
		return
	}
	r.ack(d)
}
