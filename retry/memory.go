package retry

import (
	"encoding/binary"
	"hash/maphash"
	"math/rand/v2"
	"sync"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/envelope"
)

// DefaultRemember is how many settled tries a stream remembers.
const DefaultRemember = 100_000

// memory remembers which tries run and which were settled last, so that a message that a broker hands out twice is called once.
type memory struct {
	limit int
	seeds [2]maphash.Seed

	mu      sync.Mutex
	running map[try][]func(settled bool) // those who came with the same message wait here for how it ends
	settled map[try]struct{}
	ring    []try // of settled, in a circle once it has limit of them
	next    int   // the oldest of a full ring
}

// try is a hash of what a try is of and which one it is. It has no pointers, so that the collector need not look at a hundred thousand of them.
type try [2]uint64

func newMemory(limit int) *memory {
	return &memory{
		limit: limit, seeds: [...]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
		running: map[try][]func(bool){}, settled: map[try]struct{}{},
	}
}

// try is the one that comes next of a message. Its time and its bytes tell two records of one position apart where nobody in the group saw that the
// log was cut or the topic made anew; where somebody did, the envelope's Log does, also of records that are the same.
func (m *memory) try(e *envelope.Envelope) (t try) {
	b := make([]byte, 0, 256)
	b = binary.AppendUvarint(b, uint64(e.Message.Replays))
	b = binary.AppendUvarint(b, uint64(e.Message.Attempt))
	b = binary.AppendUvarint(b, uint64(e.Log))
	b = binary.AppendVarint(b, e.Message.Time.UnixMilli())
	b = binary.AppendUvarint(b, uint64(len(e.Message.Key)))
	b = append(b, e.Message.ID...)
	for i, seed := range m.seeds {
		var h maphash.Hash
		h.SetSeed(seed)
		_, _ = h.Write(b)
		_, _ = h.Write(e.Message.Key)
		_, _ = h.Write(e.Message.Value)
		t[i] = h.Sum64()
	}
	return t
}

// begin reports whether the try is a new one, which the caller now runs and ends with end. If not, then repeat is called once:
// at once when the try was settled before, else when the running one ends, with whether it was settled.
func (m *memory) begin(t try, repeat func(settled bool)) bool {
	m.mu.Lock()
	if waiting, runs := m.running[t]; runs {
		m.running[t] = append(waiting, repeat)
		m.mu.Unlock()
		return false
	}
	if _, ok := m.settled[t]; ok {
		m.mu.Unlock()
		repeat(true)
		return false
	}
	m.running[t] = nil
	m.mu.Unlock()
	return true
}

// knows says that the try runs or was settled.
func (m *memory) knows(t try) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, settled := m.settled[t]
	_, runs := m.running[t]
	return settled || runs
}

// end ends a try that begin called new, and tells those who wait for it.
func (m *memory) end(t try, settled bool) {
	m.mu.Lock()
	waiting := m.running[t]
	delete(m.running, t)
	if settled {
		m.remember(t)
	}
	m.mu.Unlock()
	for _, repeat := range waiting {
		repeat(settled)
	}
}

func (m *memory) remember(t try) {
	if m.limit <= 0 {
		return
	}
	if _, ok := m.settled[t]; ok {
		return
	}
	m.settled[t] = struct{}{}
	if len(m.ring) < m.limit {
		m.ring = append(m.ring, t)
		return
	}
	delete(m.settled, m.ring[m.next])
	m.ring[m.next] = t
	m.next = (m.next + 1) % m.limit
}

// logs has a number for each partition whose positions no longer mean the messages that they meant before.
type logs struct{ numbers sync.Map }

type place struct {
	topic     string
	partition int32
}

// begin makes a new number for the partition.
func (l *logs) begin(topic string, partition int32) {
	l.numbers.Store(place{topic, partition}, max(1, rand.Uint32()))
}

// of is the partition's number; 0: it has none.
func (l *logs) of(o stepwell.Origin) uint32 {
	n, _ := l.numbers.Load(place{o.Topic, o.Partition})
	number, _ := n.(uint32)
	return number
}
