package streams

import (
	"time"
)

// Status is how a reader is doing.
type Status struct {
	Paused bool
	// Joined says that the reader is a member of its group and knows where its partitions begin. It
	// may have none all the same.
	Joined     bool
	Partitions int
	// InFlight and InFlightBytes count what was read and is not settled; Span also what is settled
	// behind the first of these.
	InFlight, InFlightBytes, Span int64
	// Lag is how many records lie behind the settled ones in the partitions of this reader, as far
	// as it has seen.
	Lag int64
	// Oldest is, of the first unsettled records of all partitions, the one that has been first for
	// the longest. Nil: all that was read is settled.
	Oldest *Oldest
	// Resting is how many records rest until they are tried again in place. Waiting is how many
	// were read and wait because the one before of their key, or partition, runs or rests.
	Resting, Waiting int64
	// Suspects is how many records wait aside or run as suspects; Suspect is the one that runs, or
	// is on trial before it runs again, as topic:partition:offset; empty: none is. TriedUntil is
	// when the probation of its trial ends; zero: it runs.
	Suspects   int
	Suspect    string
	TriedUntil time.Time
	// LastProgress is when a message was settled last, zero before the first.
	LastProgress time.Time
	// Err says what is wrong now and which setting to look at; empty: nothing is.
	Err string
}

// Status may be asked at any time.
func (r *Reader) Status() Status {
	r.parts.flush()
	s := Status{
		Paused:       r.crew.Paused(),
		LastProgress: r.load.lastProgress(),
		InFlight:     r.load.records.Load(), InFlightBytes: r.load.bytes.Load(), Span: r.load.span.Load(),
	}
	for _, p := range r.parts.all() {
		s.Partitions++
		s.Lag += p.lag()
		resting, waiting := p.held()
		s.Resting += int64(resting)
		s.Waiting += int64(waiting)
		n, name, until := p.suspects.count()
		s.Suspects += n
		if s.Suspect == "" {
			s.Suspect, s.TriedUntil = name, until
		}
		if o, open := p.oldestOpen(); open && (s.Oldest == nil || o.before(*s.Oldest)) {
			s.Oldest = &o
		}
	}
	s.Joined, s.Err = r.status.read()
	return s
}

// PartitionLag is the lag of one partition.
type PartitionLag struct {
	Topic     string
	Partition int32
	Lag       int64
}

// Lags returns the lag of each partition that the reader has now, in no order.
func (r *Reader) Lags() []PartitionLag {
	var all []PartitionLag
	for _, p := range r.parts.all() {
		all = append(all, PartitionLag{p.topic, p.partition, p.lag()})
	}
	return all
}
