package inbox

import (
	"context"
	"errors"

	"github.com/stepwell/stepwell/internal/failpoint"
	"github.com/stepwell/stepwell/internal/queue"
)

// delivery is a message that was picked up. It comes to one of three ends: ack, release, or rest.
type delivery struct {
	queue.Delivery
	run *run
	// work ends with the run's, and with the session: what is published in place of the delivery is
	// given up then.
	work context.Context
}

// ack removes the message from the queue: it is done, or safe elsewhere.
func (d delivery) ack() {
	d.Ack()
	d.run.inFlight.Add(-1)
}

// release gives the message back to the queue, which hands it out again.
func (d delivery) release() {
	d.Release()
	d.run.inFlight.Add(-1)
}

// isOver says that the session has ended, and the message is not ours any more.
func (d delivery) isOver() bool { return d.Life.Err() != nil }

// rest calls release after a pause, which a stop ends: an error that stays must not make a busy
// loop. There is no pause when err comes from a stop, or where the session has ended, as the broker
// hands the message out again anyway. Meanwhile the delivery is unacked, and so counts against the
// prefetch: when all of it rests nothing more is handed out, until a minute is over. id is the
// message's, which a stranger's delivery need not have.
func (d delivery) rest(id string, err error, release func()) {
	r := d.run
	if r.stop.Err() != nil || AsStop(d.work, err) {
		release()
		return
	}
	if r.cfg.Foreign && errors.Is(err, queue.ErrTooLarge) { // which no other try helps
		h := Held{ID: id, Queue: d.Queue, Bytes: d.Size()}
		r.cfg.Trouble.Hold(r.stop, d.Life.Done(), h, func() {
			r.cfg.Logger.Error("a message is too large to be parked and is held until a stop", "queue", h.Queue, "id", h.ID, "bytes", h.Bytes, "setting", r.cfg.Trouble.SizeSetting, "error", err)
		}, release)
		return
	}
	r.cfg.Trouble.Rest(r.stop, err, func() {
		r.cfg.Logger.Error("a message cannot be parked and stays where it is", "queue", d.Queue, "id", id, "error", err)
	}, release)
}

// move publishes m to the queue to, in place of the delivery, which rests if m is not confirmed.
// The function then is told the outcome, after the ack or before the rest; it may be nil.
func (d delivery) move(to string, m queue.Message, then func(error)) {
	d.replace(to, m, func(err error) {
		if then != nil {
			then(err)
		}
		if err != nil {
			d.rest(m.ID, err, d.release)
		}
	})
}

// replace publishes m to the queue to, in place of the delivery, which is acked when m is
// confirmed. The function then is told the outcome, after the ack; a delivery that was not replaced
// is its own to end. A publish that waits is given up when the session ends: the broker hands the
// message out anew, and it would be moved once more for each session.
func (d delivery) replace(to string, m queue.Message, then func(error)) {
	failpoint.Hit("hop")
	d.run.cfg.Publisher.Publish(d.work, to, m, func(err error) {
		// A message confirmed but not acked comes again: it is a duplicate at worst. Acked but not
		// confirmed it would be lost.
		if err == nil {
			failpoint.Hit("hopped")
			d.ack()
		}
		then(err)
	})
}

// repeated ends a delivery whose try another delivery has, once that one is over: settled says
// whether it settled its message.
func (d delivery) repeated(settled bool) {
	if !settled {
		d.run.suspects.giveBack(d) // it is handed out again, and then runs
		return
	}
	d.run.cfg.Repeated()
	d.ack()
}
