package retry

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/queue"
)

// A retry that kills the process comes back from the broker again and again. The rules are those of
// package streams, with the message's own headers in place of a commit's metadata:
//
//  1. More than ten returns that the broker counted make a suspect. So many have those, too, whose
//     connection was cut, and all that waited in a process that died.
//  2. A suspect runs while it holds the process's token, and only once a copy of it was published that
//     says which process runs it. All others go on meanwhile.
//  3. A copy that comes back, and not to the process that it names, tells of a death. A stop, and the
//     end of the time that a suspect may hold the token, publish a copy that names none.
//  4. After a death it runs again only in a process that has lived through the probation with no
//     suspect running. More than CRASH_LIMIT deaths condemn it; those of processes that live were none.
//  5. Two in a row are condemned, without a suspect between them that came to its end.

const (
	// suspectAfter is how many returns make a suspect.
	suspectAfter = 10
	hSuspect     = "x-stepwell-suspect"    // which processes died while it ran, with commas
	hAnnounced   = "x-stepwell-suspect-by" // which process runs it, + how many others had the copy first; empty: none
	// copyTime is how long the token is kept for a copy that another process may have got.
	copyTime = 10 * time.Second
	// vouchTime is how long after a stop was asked for a suspect that still runs is given back as one
	// that did not kill the process.
	vouchTime = 2 * time.Second
	// mostHops is how many other processes may have had a copy before the one that it names: RabbitMQ goes
	// through the consumers in turn.
	mostHops = 64
	// rowLimit is how many messages are condemned in a row.
	rowLimit = 2
)

// suspicion is what the headers of a delivery say.
type suspicion struct {
	suspect   bool
	died      []string
	announced string
	hops      int
}

func suspicionOf(d queue.Delivery) suspicion {
	died, suspect := d.Headers[hSuspect].(string)
	by, _ := d.Headers[hAnnounced].(string)
	by, hops, _ := strings.Cut(by, "+")
	n, _ := strconv.Atoi(hops)
	return suspicion{suspect, strings.FieldsFunc(died, func(r rune) bool { return r == ',' }), by, n}
}

// by is the suspicion of a message that a process runs; "": none.
func (s suspicion) by(process string) suspicion { return suspicion{true, s.died, process, 0} }

// with returns the message with other suspicions.
func (s suspicion) with(m queue.Message) queue.Message {
	m.Headers = maps.Clone(m.Headers)
	m.Headers[hSuspect], m.Headers[hAnnounced] = strings.Join(s.died, ","), s.announced
	if s.hops > 0 {
		m.Headers[hAnnounced] = fmt.Sprintf("%s+%d", s.announced, s.hops)
	}
	return m
}

// bereaved counts the death of the process that ran it, of which at most most are kept.
func (s suspicion) bereaved(most int) suspicion {
	died := append(slices.Clone(s.died), s.announced)
	return suspicion{true, died[max(0, len(died)-most):], "", 0}
}

// nameOf is a process in headers.
func nameOf(process uint32) string { return fmt.Sprintf("%08x", process) }

// treatment is what is done with a delivery.
type treatment int

const (
	asAny    treatment = iota + 1 // it is as any other
	mark                          // publish it as a suspect: the counts begin anew
	announce                      // publish a copy that says that it runs
	runAlone                      // it is that copy
)

// treat decides what is done with a delivery by the process of that name.
func (s suspicion) treat(d queue.Delivery, process string, limit int) (treatment, suspicion) {
	switch {
	case limit == 0 && (!d.Redelivered || d.Returns <= suspectAfter):
		return asAny, s
	case limit == 0: // only its count begins anew: a queue that others made may drop it after twenty
		return mark, s
	case !s.suspect && d.Redelivered && d.Returns > suspectAfter:
		return mark, s
	case !s.suspect:
		return asAny, s
	case s.announced == "":
		return announce, s
	case !d.Redelivered || s.announced == process:
		return runAlone, s
	}
	return announce, s.bereaved(limit + 1)
}

// admit says whether a delivery may be handled now; then left is to be called after its call. If not, its way is decided.
func (r *Retrier) admit(stop, work context.Context, of *queue.Delivery, e *envelope.Envelope) (left func(), ok bool) {
	d := *of
	how, s := suspicionOf(d).treat(d, r.name, r.cfg.CrashLimit)
	delete(e.Extra, hSuspect)
	delete(e.Extra, hAnnounced)
	if how == asAny || r.memory.knows(r.memory.try(e)) { // the latter runs or ran here, and is not called
		return func() {}, true
	}
	switch how {
	case mark:
		if r.cfg.CrashLimit > 0 {
			r.tellOfSuspect(d)
		}
		r.swap(stop, work, d, r.topology.Instant, suspicion{}, nil)
	case announce:
		r.prepare(stop, work, d, e, s)
	case runAlone:
		return r.alone(stop, work, of, s)
	case asAny: // above
	}
	return nil, false
}

func (r *Retrier) tellOfSuspect(d queue.Delivery) {
	r.cfg.Logger.Warn("a message came back from the broker many times: it is suspected of killing the process, and runs while no other suspect does",
		"queue", d.Queue, "id", d.ID, "returns", d.Returns)
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

// prepare takes the token for a suspect. One that was running when a process died is tried first, on
// a goroutine of its own: retries go on meanwhile.
func (r *Retrier) prepare(stop, work context.Context, d queue.Delivery, e *envelope.Envelope, s suspicion) {
	switch {
	case !r.turn.begin(d.ID):
		r.postpone(stop, work, d, s)
	case len(s.died) == 0, r.tried.is(d.ID, s):
		r.announce(stop, work, d, s)
	default:
		r.trials.Go(func() { r.try(stop, work, d, e, s) })
	}
}

// announce publishes the copy that says which process runs the suspect. It is not called before the broker has taken the ack of what it
// stands for: there would be two of them if its call killed the process at once.
func (r *Retrier) announce(stop, work context.Context, d queue.Delivery, s suspicion) {
	swapped, published := make(chan struct{}), make(chan error, 1)
	defer close(swapped)
	r.turn.await(copyTime, swapped)
	r.swap(stop, work, d, r.topology.Instant, s.by(r.name), func(err error) {
		if err != nil {
			r.turn.forgo()
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

// alone is for a copy that was announced. One that names another process is handed on: should it end
// this one, nobody could say who died.
func (r *Retrier) alone(stop, work context.Context, d *queue.Delivery, s suspicion) (left func(), ok bool) {
	if s.announced != r.name && s.hops < mostHops {
		s.hops++
		r.swap(stop, work, *d, r.topology.Instant, s, nil)
		return nil, false
	}
	if s.announced != r.name { // it has ended, or has no consumer
		r.postpone(stop, work, *d, s.by(""))
		return nil, false
	}
	if swapped, kept := r.turn.resume(); kept {
		<-swapped // copyTime at most
	} else if !r.turn.begin(d.ID) {
		r.postpone(stop, work, *d, s.by(""))
		return nil, false
	}
	d.Session = &once{Session: d.Session}
	over, end := make(chan struct{}), sync.OnceFunc(r.turn.end)
	var vouching sync.WaitGroup
	vouching.Go(func() { r.vouch(stop, work, over, *d, s, end) })
	return func() {
		close(over)
		vouching.Wait()
		r.row.Store(0)
		end()
	}, true
}

// vouch sees to it that a suspect which a stop cuts off, or that had its time, does not look as if it had killed the process: a copy takes its place
// that says so. Should the call come to its end even so, that copy is a repeat.
func (r *Retrier) vouch(stop, work context.Context, over <-chan struct{}, d queue.Delivery, s suspicion, end func()) {
	long := time.NewTimer(r.cfg.AloneFor)
	defer long.Stop()
	select {
	case <-over:
		return
	case <-long.C:
		r.cfg.Logger.Warn("a suspected message runs for longer than others are to wait for it: the next suspect has its turn", "queue", d.Queue, "id", d.ID, "after", r.cfg.AloneFor)
		defer end()
	case <-stop.Done():
		grace := time.NewTimer(vouchTime)
		defer grace.Stop()
		select {
		case <-over:
			return
		case <-work.Done():
			return
		case <-grace.C:
		}
	}
	r.publisher.Publish(work, r.topology.Instant, s.by("").with(d.Message), func(err error) {
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
