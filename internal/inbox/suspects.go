package inbox

import (
	"cmp"
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/solo"
)

const (
	// copyTime is how long the token is kept for a copy that another process may have got, and for
	// the broker to have the end of a delivery whose call is over.
	copyTime = 10 * time.Second
	// vouchTime is how long after a stop was asked for a suspect that still runs is given back as
	// one that did not kill the process.
	vouchTime = 2 * time.Second
	// spread is within what time suspects that wait for their turn are moved.
	spread = time.Second / 2
	// mostHops is how many other processes may have had a copy before the one that it names:
	// RabbitMQ goes through the consumers in turn.
	mostHops = 64
	// rowLimit is how many messages are condemned in a row.
	rowLimit = 2
)

// Suspects says how messages that may kill the process are found. The rules are in suspicion.go.
type Suspects struct {
	// Limit: more deaths than that, each of a process while the message ran as a suspect, condemn
	// it. 0: nothing is suspected.
	Limit int
	// Token is held by the suspect that runs. Nil: nobody else has suspects in this process.
	Token *solo.Token
	// Process tells the process from others. 0: a number of the Inbox's own.
	Process uint32
	// AloneFor is for how long at most other suspects wait for the call of one; all others wait
	// for none. Default: 10 minutes.
	AloneFor time.Duration
	// Probation is how long a process must have lived, with no suspect running, before a message
	// that ran while another died runs in it again. At its end, and a little before, the broker is
	// to have noticed that death, and who was cut off is to be connected again. Default: a minute.
	Probation time.Duration
	// Wait is a queue that brings a suspect back whose turn is not now. Few have their turn before
	// all others have gone there, so its time is to be some seconds at most. Empty: such a suspect
	// goes round in its own queue.
	Wait string
}

// suspects has the suspects of one queue, of which at most one runs.
type suspects struct {
	in  *Inbox
	cfg Suspects
	// name is this process, as headers have it.
	name   string
	turn   *turn
	passed passed
	// trials are those that are under way, and those who hold the token after a call.
	trials sync.WaitGroup
	row    row
}

func newSuspects(in *Inbox, cfg Suspects) *suspects {
	cfg.Token = cmp.Or(cfg.Token, &solo.Token{})
	cfg.Process = cmp.Or(cfg.Process, rand.Uint32()|1)
	cfg.AloneFor = cmp.Or(cfg.AloneFor, 10*time.Minute)
	cfg.Probation = cmp.Or(cfg.Probation, time.Minute)
	return &suspects{in: in, cfg: cfg, name: nameOf(cfg.Process), turn: newTurn(cfg.Token)}
}

// admit says whether a message may be handled now. If it may not, the end of the delivery is
// decided. If it may, and is a suspect, then over is to be called after its call, and told whether
// that returned; over is nil for all other messages. The delivery of a suspect gets a session that
// settles once: its call may do so, or vouch, whichever is first.
func (s *suspects) admit(of *delivery, e *envelope.Envelope) (over func(returned bool), ok bool) {
	d := *of
	how, known := suspicionOf(d.Delivery).treat(d.Delivery, s.name, s.cfg.Limit)
	// Extra goes with the message into its next queue. A message gets there only when its call has
	// returned, or was not made: then nothing is held against it any longer.
	delete(e.Extra, hSuspect)
	delete(e.Extra, hAnnounced)
	if how == asAny || s.in.memory.knows(s.in.memory.try(e)) { // a repeat is not called
		return nil, true
	}
	switch how {
	case mark:
		if s.cfg.Limit > 0 {
			s.tell(d)
		}
		s.moveSoon(d, s.in.cfg.Queue, suspicion{}, 0)
	case announce:
		s.prepare(d, e, known)
	case runAlone:
		return s.alone(of, known)
	case asAny: // above
	}
	return nil, false
}

func (s *suspects) tell(d delivery) {
	s.in.cfg.Logger.Warn("a message came back from the broker many times: it is suspected of killing the process, and runs while no other suspect does",
		"queue", d.Queue, "id", d.ID, "returns", d.Returns)
}

// postpone sends a suspect away whose turn is not now; it comes back after a short time.
func (s *suspects) postpone(d delivery, known suspicion) {
	switch to := s.cfg.Wait; {
	case d.run.stop.Err() != nil: // begun since the delivery was picked
		s.giveBack(d)
	case to != "":
		s.moveSoon(d, to, known, 0)
	default: // from here to here
		s.moveSoon(d, s.in.cfg.Queue, known, time.Second/2)
	}
}

// moveSoon publishes a copy in place of a suspect after that time and up to half a second more, or
// at a stop. What is on its way when the process dies is there twice afterwards. All suspects come
// when a process begins, and one that nobody suspects may end each process right then: moved at
// once, and all at one moment, they would be twice as many after each of its deaths.
func (s *suspects) moveSoon(d delivery, to string, known suspicion, after time.Duration) {
	soon, cancel := context.WithTimeout(d.run.stop, after+rand.N(spread))
	context.AfterFunc(soon, func() {
		cancel()
		d.move(to, known.with(d.Message), nil)
	})
}

// prepare takes the token for a suspect, and announces it. One that processes died of is put on
// trial first, on a goroutine of its own: other messages go on meanwhile.
func (s *suspects) prepare(d delivery, e *envelope.Envelope, known suspicion) {
	switch {
	case !s.turn.begin(d.ID):
		s.postpone(d, known)
	case len(known.died) == 0, s.passed.is(d.ID, known):
		s.announce(d, known)
	default:
		s.trials.Go(func() { s.judge(d, e, known) })
	}
}

// announce publishes the copy that says which process runs the suspect, and acks the delivery that
// the copy stands for. The copy is not called before the broker has that ack (swapped is closed
// then): if its call killed the process at once, there would be two messages.
func (s *suspects) announce(d delivery, known suspicion) {
	s.in.cfg.Presence.Show(s.shownAs(s.name))
	swapped, published := make(chan struct{}), make(chan error, 1)
	defer close(swapped)
	s.turn.await(copyTime, swapped)
	d.move(s.in.cfg.Queue, known.by(s.name).with(d.Message), func(err error) {
		if err != nil {
			s.turn.forgo()
		}
		published <- err
	})
	waiting, cancel := context.WithTimeout(d.run.stop, copyTime)
	defer cancel()
	select {
	case err := <-published:
		if err == nil {
			_ = d.Flush(waiting) // without a session the message comes again, whatever we do
		}
	case <-waiting.Done():
	}
}

// alone is for the copy of a suspect that was announced. A copy that names another process is
// handed on until that process gets it: if it ran here, and ended this process, the death would be
// put down to the other one.
func (s *suspects) alone(d *delivery, known suspicion) (over func(returned bool), ok bool) {
	if known.announced != s.name && known.hops < mostHops {
		known.hops++
		d.move(s.in.cfg.Queue, known.with(d.Message), nil)
		return nil, false
	}
	if known.announced != s.name { // that process has ended, or consumes no more
		s.postpone(*d, known.by(""))
		return nil, false
	}
	if swapped, kept := s.turn.resume(); kept {
		<-swapped // copyTime at most
	} else if !s.turn.begin(d.ID) {
		s.postpone(*d, known.by(""))
		return nil, false
	}
	o := &once{Session: d.Session, of: *d, unname: func(of delivery, done func(error)) { s.unname(of, known, done) }, told: make(chan struct{})}
	d.Session = o
	called, end := make(chan struct{}), sync.OnceFunc(s.turn.end)
	var vouching sync.WaitGroup
	vouching.Go(func() {
		if s.vouch(called, *d, known) {
			o.await()
			end()
		}
	})
	return func(returned bool) {
		close(called)
		if returned {
			s.row.end()
		}
		s.trials.Go(func() { // not on the worker, which others want
			vouching.Wait()
			if returned { // else the run is over
				o.await()
			}
			end()
		})
	}, true
}

// vouch sees to it that a suspect which a stop cuts off, or that had its time, does not look as if
// it had killed the process: a copy takes its place that says so. Should the call come to its end
// even so, that copy is a repeat. The call is over when called is closed. tooLong says that another
// suspect is to have its turn.
func (s *suspects) vouch(called <-chan struct{}, d delivery, known suspicion) (tooLong bool) {
	stop, work := d.run.stop, d.run.work
	select {
	case <-called:
		return false
	case <-time.After(s.cfg.AloneFor):
		s.in.cfg.Logger.Warn("a suspected message runs for longer than others are to wait for it: the next suspect has its turn", "queue", d.Queue, "id", d.ID, "after", s.cfg.AloneFor)
		tooLong = true
	case <-stop.Done():
		select {
		case <-called:
			return false
		case <-work.Done():
			return false
		case <-time.After(vouchTime):
		}
	}
	s.unname(d, known, func(err error) {
		if err == nil {
			d.Ack() // else it stays as it is
		}
	})
	return tooLong
}

// unname publishes a copy of a suspect that names no process.
func (s *suspects) unname(d delivery, known suspicion, done func(error)) {
	s.in.cfg.Publisher.Publish(d.work, s.in.cfg.Queue, known.by("").with(d.Message), done)
}

// giveBack releases a delivery that was not to run, or not yet.
func (s *suspects) giveBack(d delivery) {
	if known, names := s.named(d); names {
		d.move(s.in.cfg.Queue, known.by("").with(d.Message), nil)
	} else {
		d.release()
	}
}

// notTaken is for a delivery that no worker took. It reports whether it moved the delivery, as
// giveBack does; where it did not, the consumer gives it back.
func (s *suspects) notTaken(d delivery) (moved bool) {
	known, names := s.named(d)
	if names {
		d.run.inFlight.Add(1)
		d.move(s.in.cfg.Queue, known.by("").with(d.Message), nil)
	}
	return names
}

// named says that the delivery is a suspect's copy that names a process, whose death it would tell
// of if it were released. One that came back before does so already, and one whose session has
// ended is back. In a queue of somebody else's there are no such copies, whatever headers say.
func (s *suspects) named(d delivery) (known suspicion, names bool) {
	known = suspicionOf(d.Delivery)
	return known, !s.in.cfg.Foreign && known.announced != "" && (!d.Redelivered || known.announced == s.name) && !d.isOver()
}

// once is the session of a suspect's delivery, which both its call and vouch may settle: the first
// one does.
type once struct {
	queue.Session
	of      delivery // with the session that once stands for
	unname  func(of delivery, done func(error))
	settled atomic.Bool
	told    chan struct{} // closed when the session was told how the delivery ends
}

// await waits until the broker has the delivery's end, since the copy names this process until
// then: if the next suspect killed it before, the death would be put down to this one as well. It
// waits for copyTime at most; a stop, after which no suspect of this queue runs, and the session's
// end end it.
func (o *once) await() {
	waiting, cancel := context.WithTimeout(o.of.run.stop, copyTime)
	defer cancel()
	select {
	case <-o.told:
		_ = o.Flush(waiting) // without a session the message comes again, whatever we do
	case <-o.of.Life.Done():
	case <-waiting.Done():
	}
}

// Ack removes the message unless it was settled before.
func (o *once) Ack(tag uint64) {
	if !o.settled.Swap(true) {
		o.Session.Ack(tag)
		close(o.told)
	}
}

// Release gives the message back unless it was settled before: by a copy that names no process,
// since what is given back in order did not kill this one, and the broker would not tell one from
// the other. Where the session has ended the message is back already.
func (o *once) Release(tag uint64) {
	if o.settled.Swap(true) || o.of.isOver() {
		return
	}
	o.unname(o.of, func(err error) {
		defer close(o.told)
		if err != nil {
			o.Session.Release(tag)
			return
		}
		o.Session.Ack(tag)
	})
}
