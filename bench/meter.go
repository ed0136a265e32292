package main

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"time"
)

// meter counts records, measures from the first of them to the last, and finds those that come
// twice or out of order.
type meter struct {
	wanted  int64
	step    int64 // how many records of a partition are counted at once
	feed    feed
	total   atomic.Int64
	parts   []counter
	first   sync.Once
	last    sync.Once
	over    sync.Once
	began   sample
	ended   sample
	done    chan struct{} // closed with the last record
	broker  int           // the process of RabbitMQ; 0: unknown
	read    atomic.Int64  // calls, where a case counts them
	profile *os.File      // of what is between begin and end; nil: none
	keys    []atomic.Int64
	seen    [][]atomic.Uint64 // by partition, a bit for each offset

	mu    sync.Mutex
	notes map[string]float64
	wrong map[string]int
}

// counter belongs to whoever handles the partition; it has cache lines of its own.
type counter struct {
	n, next, again int64
	shared         atomic.Int64 // instead of n, where several may handle the partition
	_              [96]byte
}

// countStep is how many records of a partition are added to the total at once, so that counting
// costs next to nothing.
const countStep = 256

func newMeter(wanted int64, f feed) *meter {
	m := &meter{
		wanted: wanted, step: countStep, feed: f, done: make(chan struct{}), keys: make([]atomic.Int64, f.Keys), notes: map[string]float64{}, wrong: map[string]int{},
	}
	m.widen(f.Partitions)
	return m
}

// widen makes room for so many partitions.
func (m *meter) widen(partitions int) {
	m.parts, m.seen = make([]counter, partitions), make([][]atomic.Uint64, partitions)
	for i := range m.seen {
		m.seen[i] = make([]atomic.Uint64, 2*m.wanted/64+countStep) // the pages that nobody touches cost nothing
	}
}

// begin starts the clock, if nobody has yet.
func (m *meter) begin() {
	m.first.Do(func() {
		if m.profile != nil {
			if err := pprof.StartCPUProfile(m.profile); err != nil {
				m.blame("profiles could not be started: " + err.Error())
			}
		}
		m.began = m.now()
	})
}

// apart takes a time off that was no work; it is called before end.
func (m *meter) apart(d time.Duration) { m.began.at = m.began.at.Add(d) }

// end stops the clock, if nobody has yet.
func (m *meter) end() {
	m.last.Do(func() {
		m.ended = m.now()
		if m.profile != nil {
			pprof.StopCPUProfile()
		}
	})
}

func (m *meter) now() sample {
	s, err := now(m.broker)
	if err != nil {
		m.blame(err.Error())
	}
	return s
}

// finish stops the clock and says that the case is done.
func (m *meter) finish() {
	m.end()
	m.over.Do(func() { close(m.done) })
}

// inOrder counts a record where a partition is handled by one goroutine at a time.
func (m *meter) inOrder(partition int32, offset int64) {
	p := &m.parts[partition]
	if p.n == 0 {
		m.begin()
	}
	p.n++
	if offset != p.next {
		p.again++
	}
	p.next = offset + 1
	if p.n%countStep == 0 && m.total.Add(countStep) >= m.wanted {
		m.finish()
	}
}

// first try of a record, where one of its key must not come before an earlier one; it counts
// nothing.
func (m *meter) ordered(partition int32, offset int64) {
	if m.feed.Keys == 0 {
		return
	}
	key := (offset*int64(m.feed.Partitions) + int64(partition)) % int64(m.feed.Keys)
	if before := m.keys[key].Swap(offset + 1); before > offset {
		m.blame("records of a key came in the wrong order")
	}
}

// once counts a record whose work is done.
func (m *meter) once(partition int32, offset int64) {
	bit := uint64(1) << (offset % 64)
	if m.seen[partition][offset/64].Or(bit)&bit != 0 {
		m.blame("records were done twice")
		return
	}
	n := m.parts[partition].shared.Add(1)
	if n == 1 {
		m.begin()
	}
	if n%m.step == 0 && m.total.Add(m.step) >= m.wanted {
		m.finish()
	}
}

func (m *meter) blame(what string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wrong[what]++
}

// note keeps a number for the report.
func (m *meter) note(name string, value float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.notes[name] = value
}

// result may be asked for when the case has ended.
func (m *meter) result() (result, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := result{Records: m.wanted, Wall: m.ended.at.Sub(m.began.at), CPU: m.ended.cpu - m.began.cpu, Notes: maps.Clone(m.notes)}
	r.Allocs = m.ended.allocs - m.began.allocs
	r.Broker = m.ended.broker - m.began.broker
	var errs []error
	for i := range m.parts {
		if again := m.parts[i].again; again > 0 {
			errs = append(errs, fmt.Errorf("partition %d: %d records came twice, in the wrong order or after a gap", i, again))
		}
	}
	for what, count := range m.wrong {
		errs = append(errs, fmt.Errorf("%d %s", count, what))
	}
	var err error
	r.PeakRSS, err = peakRSS()
	return r, errors.Join(append(errs, err)...)
}

// result is what one run of a case measured.
type result struct {
	Records int64
	Wall    time.Duration
	CPU     time.Duration
	Allocs  uint64        // objects
	Broker  time.Duration // CPU time of RabbitMQ; 0: unknown
	PeakRSS int64         // bytes
	Notes   map[string]float64
}

// perSecond is how many records were handled in a second.
func (r result) perSecond() float64 { return float64(r.Records) / r.Wall.Seconds() }

// allocsPerRecord is how many objects a record costs.
func (r result) allocsPerRecord() float64 { return float64(r.Allocs) / float64(r.Records) }

// cpuPerMillion is the CPU time of a million records in seconds.
func (r result) cpuPerMillion() float64 { return r.CPU.Seconds() / float64(r.Records) * 1e6 }

// brokerPerMillion is RabbitMQ's; no number where it is not known.
func (r result) brokerPerMillion() float64 {
	if r.Broker == 0 {
		return math.NaN()
	}
	return r.Broker.Seconds() / float64(r.Records) * 1e6
}
