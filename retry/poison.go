package retry

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/queue"
)

// A message that kills the process comes back from the broker again and again, and so do all that wait in the same process, and those whose
// connection was cut. So a high count of returns only makes a suspect. A suspect runs with nothing else in the process: first the process
// becomes quiet, then a copy that says so is published in place of the message, and when that copy comes it runs at once. A
// copy that comes a second time tells of a death, unless this same process sent it. After CRASH_LIMIT deaths it is not called again.

const (
	// suspectAfter is how many returns make a suspect.
	suspectAfter = 10
	hSuspect     = "x-stepwell-suspect"    // how often it was announced that the message runs alone
	hAnnounced   = "x-stepwell-suspect-by" // which process announced it; empty: none since its last death
	// copyTime is how long the process stays quiet for a copy that another one may have got.
	copyTime = 10 * time.Second
	// vouchTime is how long after a stop was asked for a suspect that still runs is given back as one that did not kill the process.
	vouchTime = 2 * time.Second
)

// suspicion is what the headers of a delivery say.
type suspicion struct {
	suspect   bool
	runs      int
	announced string
}

func suspicionOf(d queue.Delivery) suspicion {
	runs, suspect := d.Headers[hSuspect].(int64)
	by, _ := d.Headers[hAnnounced].(string)
	return suspicion{suspect, int(max(0, min(runs, 1<<20))), by}
}

// with returns the message with other suspicions.
func (s suspicion) with(m queue.Message) queue.Message {
	m.Headers = maps.Clone(m.Headers)
	m.Headers[hSuspect], m.Headers[hAnnounced] = int64(s.runs), s.announced
	return m
}

// treatment is what is done with a delivery.
type treatment int

const (
	asAny    treatment = iota + 1 // it is as any other
	mark                          // publish it as a suspect: the counts begin anew
	announce                      // publish a copy that says that it runs alone
	runAlone                      // it is that copy
	condemn                       // it killed the process too often
)

// treat decides what is done with a delivery by the process of that name.
func (s suspicion) treat(d queue.Delivery, process string, limit int) treatment {
	switch {
	case limit == 0:
		return asAny
	case !s.suspect && d.Redelivered && d.Returns > suspectAfter:
		return mark
	case !s.suspect:
		return asAny
	case s.announced == "":
		return announce
	case !d.Redelivered || s.announced == process:
		return runAlone
	case s.runs >= limit:
		return condemn
	}
	return announce
}

// admit says whether a delivery may be handled now; then left is to be called after its call. If not, its way is decided.
func (r *Retrier) admit(stop, work context.Context, of *queue.Delivery, e *envelope.Envelope) (left func(), ok bool) {
	d := *of
	s := suspicionOf(d)
	delete(e.Extra, hSuspect)
	delete(e.Extra, hAnnounced)
	how := s.treat(d, r.name, r.cfg.CrashLimit)
	if how != asAny && r.memory.knows(r.memory.try(e)) {
		return func() {}, true // it runs or ran here, and is not called
	}
	switch how {
	case mark:
		r.cfg.Logger.Warn("a message came back from the broker many times: it runs alone from now on", "queue", d.Queue, "id", d.ID, "returns", d.Returns)
		r.swap(stop, work, d, r.topology.Instant, suspicion{}, nil)
	case announce:
		r.announce(stop, work, d, s)
	case runAlone:
		return r.alone(stop, work, of, s)
	case condemn:
		r.condemn(stop, work, d, e, s)
	case asAny:
		if r.cfg.Room.Enter() {
			return r.cfg.Room.Leave, true
		}
		r.park(stop, d)
	}
	return nil, false
}

// swap publishes the message with other suspicions in place of the delivery. Then it calls then, if that is not nil, with what came of it.
func (r *Retrier) swap(stop, work context.Context, d queue.Delivery, to string, s suspicion, then func(error)) {
	r.publisher.Publish(work, to, s.with(d.Message), func(err error) {
		if err == nil {
			r.ack(d)
		}
		if then != nil {
			then(err)
		}
		if err != nil {
			r.later(stop, work, d, err, func() { r.release(d) })
		}
	})
}

// postpone is for a suspect whose turn is not now.
func (r *Retrier) postpone(stop, work context.Context, d queue.Delivery, s suspicion) {
	if stop.Err() != nil {
		r.release(d)
		return
	}
	to, ok := r.topology.Shortest()
	if !ok { // there is no delay queue: it goes round
		pause, cancel := context.WithTimeout(stop, time.Second)
		context.AfterFunc(pause, func() {
			cancel()
			r.swap(stop, work, d, r.topology.Instant, s, nil)
		})
		return
	}
	r.swap(stop, work, d, to, s, nil)
}

// announce makes the process quiet and publishes the copy, which is not called before the broker has taken the ack of what it stands for: there
// would be two of them if its call killed the process at once.
func (r *Retrier) announce(stop, work context.Context, d queue.Delivery, s suspicion) {
	if !r.solo.begin(stop) {
		r.postpone(stop, work, d, suspicion{true, s.runs, ""})
		return
	}
	r.cfg.Logger.Warn("a suspect runs alone", "queue", d.Queue, "id", d.ID, "deaths", s.runs)
	swapped, published := make(chan struct{}), make(chan error, 1)
	defer close(swapped)
	r.solo.await(copyTime, swapped)
	r.swap(stop, work, d, r.topology.Instant, suspicion{true, s.runs + 1, r.name}, func(err error) {
		if err != nil {
			r.solo.forgo()
		}
		published <- err
	})
	waiting, cancel := context.WithTimeout(stop, copyTime)
	defer cancel()
	select {
	case err := <-published:
		if err == nil {
			_ = d.Flush(waiting) // without a session the message comes again, whatever we do
		}
	case <-waiting.Done():
	}
}

// alone is for a copy that was announced, by this process or another.
func (r *Retrier) alone(stop, work context.Context, d *queue.Delivery, s suspicion) (left func(), ok bool) {
	swapped, kept := r.solo.resume()
	if kept {
		<-swapped // copyTime at most
	} else if !r.solo.begin(stop) {
		r.postpone(stop, work, *d, suspicion{true, s.runs - 1, ""})
		return nil, false
	}
	d.Session = &once{Session: d.Session}
	over := make(chan struct{})
	var vouching sync.WaitGroup
	vouching.Go(func() { r.vouch(stop, work, over, *d, s) })
	return func() {
		close(over)
		vouching.Wait()
		r.solo.end()
	}, true
}

// vouch sees to it that a suspect which a stop cuts off does not look as if it had killed the process: before the time is up a copy takes its place
// that says so. Should the call come to its end even so, that copy is a repeat.
func (r *Retrier) vouch(stop, work context.Context, over <-chan struct{}, d queue.Delivery, s suspicion) {
	select {
	case <-over:
		return
	case <-stop.Done():
	}
	grace := time.NewTimer(vouchTime)
	defer grace.Stop()
	select {
	case <-over:
		return
	case <-work.Done():
		return
	case <-grace.C:
	}
	r.publisher.Publish(work, r.topology.Instant, suspicion{true, s.runs - 1, ""}.with(d.Message), func(err error) {
		if err == nil {
			d.Ack() // else it stays as it is
		}
	})
}

// once is a session for a delivery that two may settle.
type once struct {
	queue.Session
	settled atomic.Bool
}

// Ack removes the message unless it was settled before.
func (o *once) Ack(tag uint64) {
	if !o.settled.Swap(true) {
		o.Session.Ack(tag)
	}
}

// Release gives the message back unless it was settled before.
func (o *once) Release(tag uint64) {
	if !o.settled.Swap(true) {
		o.Session.Release(tag)
	}
}

// condemn puts a message into the dead set, uncalled.
func (r *Retrier) condemn(stop, work context.Context, d queue.Delivery, e *envelope.Envelope, s suspicion) {
	r.cfg.Logger.Error("a message killed the process each time it ran alone: it is in the dead set, not called again", "queue", d.Queue, "id", d.ID, "deaths", s.runs)
	e.Failure.At, e.Failure.Error = time.Now(), "the process died each time the message ran alone"
	p := &parcel{envelope: e, made: e.Message.Attempt}
	p.bury(stepwell.ReasonCrashLoop, r.topology)
	r.post(work, p, func(err error) { r.unread(stop, work, d, err) })
}
