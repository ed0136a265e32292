package retry

import (
	"crypto/sha256"
	"encoding/binary"
	"sync"

	"github.com/stepwell/stepwell"
)

// DefaultRemember is how many settled tries a stream remembers.
const DefaultRemember = 100_000

// memory remembers which tries run and which were settled last, so that a message that a broker hands out twice is called once.
type memory struct {
	limit int

	mu      sync.Mutex
	running map[try]*run
	settled map[try]struct{}
	ring    []entry // of settled, in a circle once it has limit entries
	next    int     // the oldest entry of a full ring
}

// try is the hash of (id, time, replays, attempt): it has no pointers, so that the collector need not look at a hundred thousand of them. The
// record's time tells two records of the same offset apart, also where another process saw that the log was cut.
type try [16]byte

// place is the hash of a partition.
type place [8]byte

type entry struct {
	try   try
	place place
}

// run is a try on its way. Those who came with the same message wait here for how it ends.
type run struct{ waiting []func(settled bool) }

func newMemory(limit int) *memory {
	return &memory{limit: limit, running: map[try]*run{}, settled: map[try]struct{}{}}
}

func tryOf(m *stepwell.Message) try {
	b := make([]byte, 0, 256)
	b = binary.AppendUvarint(b, uint64(m.Replays))
	b = binary.AppendUvarint(b, uint64(m.Attempt))
	b = binary.AppendVarint(b, m.Time.UnixMilli())
	sum := sha256.Sum256(append(b, m.ID...))
	return try(sum[:16])
}

func placeOf(topic string, partition int32) place {
	sum := sha256.Sum256(binary.BigEndian.AppendUint32([]byte(topic), uint32(partition)))
	return place(sum[:8])
}

// begin reports whether the try is a new one, which the caller now runs and ends with end. If not, then repeat is called once:
// at once when the try was settled before, else when the running one ends, with whether it was settled.
func (m *memory) begin(t try, repeat func(settled bool)) bool {
	m.mu.Lock()
	if r := m.running[t]; r != nil {
		r.waiting = append(r.waiting, repeat)
		m.mu.Unlock()
		return false
	}
	if _, ok := m.settled[t]; ok {
		m.mu.Unlock()
		repeat(true)
		return false
	}
	m.running[t] = &run{}
	m.mu.Unlock()
	return true
}

// knows says that the try runs or was settled.
func (m *memory) knows(t try) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, settled := m.settled[t]
	return settled || m.running[t] != nil
}

// end ends a try that begin called new, and tells those who wait for it.
func (m *memory) end(t try, p place, settled bool) {
	m.mu.Lock()
	r := m.running[t]
	delete(m.running, t)
	if settled {
		m.remember(entry{t, p})
	}
	m.mu.Unlock()
	if r == nil {
		return
	}
	for _, repeat := range r.waiting {
		repeat(settled)
	}
}

func (m *memory) remember(e entry) {
	if m.limit <= 0 {
		return
	}
	if _, ok := m.settled[e.try]; ok {
		return
	}
	m.settled[e.try] = struct{}{}
	if len(m.ring) < m.limit {
		m.ring = append(m.ring, e)
		return
	}
	delete(m.settled, m.ring[m.next].try)
	m.ring[m.next] = e
	m.next = (m.next + 1) % m.limit
}

// forget drops what was settled of a partition whose offsets no longer mean the same messages.
func (m *memory) forget(p place) {
	m.mu.Lock()
	defer m.mu.Unlock()
	inOrder := append(append([]entry(nil), m.ring[m.next:]...), m.ring[:m.next]...)
	m.ring, m.next = m.ring[:0], 0
	for _, e := range inOrder {
		if e.place == p {
			delete(m.settled, e.try)
			continue
		}
		m.ring = append(m.ring, e)
	}
}
