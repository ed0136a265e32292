package retry

import (
	"cmp"
	"reflect"
	"slices"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/errtext"
)

// parcel is an envelope on its way to a queue.
type parcel struct {
	envelope *envelope.Envelope
	made     int // the attempt that failed
	queue    string
	wait     time.Duration // that has no queue of its own, and goes down the ladder; 0: there is none
	snoozed  bool
	handed   bool // it is handed over to a channel
	enqueued bool // no handler had it before
	// traceParent and traceState are of that attempt.
	traceParent, traceState string
}

func (p *parcel) dead() bool { return !p.envelope.DiedAt.IsZero() }

// fail writes the failure down, which is of a try in the process by, and decides where the message
// goes.
func (p *parcel) fail(f Failure, by string, t Topology) {
	e := p.envelope
	p.traceParent, p.traceState = f.TraceParent, f.TraceState
	e.Failure = envelope.Failure{Reason: f.Reason, ErrorType: f.errorType(), Stack: f.Stack, Group: f.Group, At: f.At, Run: f.run(by)}
	if f.Err != nil {
		e.Failure.Error = errtext.Of(f.Err)
	}
	e.AttemptsTotal++
	e.Of = 1 + len(t.budget)
	e.History = append(slices.Clip(e.History), envelope.Try{
		Attempt: p.made, At: f.At, Error: e.Failure.Error, ErrorType: e.Failure.ErrorType, Run: e.Failure.Run,
	})
	e.Message.FirstFailed = cmp.Or(e.Message.FirstFailed, f.At)
	if e.TraceParent == "" {
		e.TraceParent, e.TraceState = f.TraceParent, f.TraceState
	}
	if name, left := t.Delay(p.made, &e.Message); left && f.Reason == "" {
		e.Message.Attempt, p.queue = p.made+1, name
		p.wait = min(f.After, envelope.LongestWait)
		return
	}
	p.bury(cmp.Or(f.Reason, stepwell.ReasonExhausted), t)
}

// errorType is the type of what the handler said; empty: it said nothing, or the error itself says
// that it has none, as that of a record which killed the process, and is no handler's.
func (f Failure) errorType() string {
	if f.ErrorType != "" || f.Err == nil {
		return f.ErrorType
	}
	if says, ok := f.Err.(interface{ ErrorType() string }); ok {
		return says.ErrorType()
	}
	return reflect.TypeOf(f.Err).String()
}

// run is how the try was made, in the process by.
func (f Failure) run(by string) envelope.Run {
	return envelope.Run{Took: f.Took, By: by, Span: envelope.SpanOf(f.TraceParent)}
}

// snooze leaves the try as it is.
func (p *parcel) snooze(d time.Duration, t Topology) {
	p.envelope.Message.Snoozes++
	p.queue, p.wait, p.snoozed = t.Instant, d, true
}

func (p *parcel) bury(reason string, t Topology) {
	e := p.envelope
	p.wait, e.Wait, p.snoozed, p.handed = 0, envelope.Wait{}, false, false
	e.Message.Attempt, e.Failure.Reason, p.queue = p.made, reason, t.DeadSet
	e.DiedAt = cmp.Or(e.Failure.At, time.Now()) // what was only put off never failed
}

// shrink makes less of the parcel; false when it is as small as can be.
func (p *parcel) shrink(t Topology) bool {
	e := p.envelope
	switch {
	case e.Pointer:
		return false
	case e.Compressed && !e.HasPosition():
		return p.curtail()
	case e.Compressed:
		e.Point()
		p.bury(stepwell.ReasonTooLarge, t)
	default:
		e.Compressed = true
	}
	return true
}

// curtail leaves out what explains the failure. The value is nowhere else: what has no place in
// Kafka never becomes a pointer, however large it is.
func (p *parcel) curtail() bool {
	e := p.envelope
	more := e.Failure.Stack != "" || e.Failure.Error != "" || len(e.History) > 0
	e.Failure.Stack, e.Failure.Error, e.History = "", "", nil
	return more
}
