package inbox

import (
	"errors"

	"github.com/stepwell/stepwell/internal/queue"
)

// delivery is a message that was picked up. It comes to one of three ends: ack, release, or rest.
type delivery struct {
	queue.Delivery
	run *run
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

// rest calls release after a pause, which a stop ends: an error that stays must not make a busy
// loop. There is no pause when err comes from a stop. Meanwhile the delivery is unacked, and so
// counts against the prefetch: when all of it rests nothing more is handed out, until a minute is
// over.
func (d delivery) rest(err error, release func()) {
	r := d.run
	if r.stop.Err() != nil || AsStop(r.work, err) {
		release()
		return
	}
	say := func() {
		r.cfg.Logger.Error("a message cannot be parked and stays where it is", "queue", d.Queue, "id", d.ID, "error", err)
	}
	if r.cfg.Foreign && errors.Is(err, queue.ErrTooLarge) { // which no other try helps
		r.cfg.Trouble.Hold(r.stop, err, say, release)
		return
	}
	r.cfg.Trouble.Rest(r.stop, err, say, release)
}

// move publishes m to the queue to, in place of the delivery, which is acked when m is confirmed
// and rests if it is not. The function then is told the outcome, after the ack or before the rest;
// it may be nil.
func (d delivery) move(to string, m queue.Message, then func(error)) {
	d.run.cfg.Publisher.Publish(d.run.work, to, m, func(err error) {
		// A message confirmed but not acked comes again: it is a duplicate at worst. Acked but not
		// confirmed it would be lost.
		if err == nil {
			d.ack()
		}
		if then != nil {
			then(err)
		}
		if err != nil {
			d.rest(err, d.release)
		}
	})
}

// repeated ends a delivery whose try another delivery has, once that one is over: settled says
// whether it settled its message.
func (d delivery) repeated(settled bool) {
	if !settled {
		d.release() // it is handed out again, and then runs
		return
	}
	d.run.cfg.Repeated()
	d.ack()
}
