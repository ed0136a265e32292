package inbox

import (
	"encoding/binary"
	"hash/maphash"
	"slices"
	"sync"

	"github.com/stepwell/stepwell/internal/envelope"
)

// remembered is how many settled tries an Inbox remembers.
const remembered = 100_000

// memory remembers which tries run and which were settled last, so that a message that a broker
// hands out twice is called once. A nil memory knows nothing, and takes each try for a new one.
type memory struct {
	limit int
	seeds [2]maphash.Seed

	mu sync.Mutex
	// tries has each try that runs, with false, and those that were settled last, with true. mu
	// guards this field and those below.
	tries map[try]bool
	// waiting has the repeats of tries that run, which wait for how those end.
	waiting map[try][]repeat
	// ring has those that were settled, oldest first, so that the oldest is forgotten once there
	// are limit of them.
	ring []try
	// next is the index of the oldest in a ring that is full.
	next int
}

// try is one attempt of one message, as a hash. It has 128 bits, since of two tries with the same
// hash one would be acked uncalled. It has no pointers, so that the garbage collector need not look
// at a hundred thousand of them.
type try [2]uint64

// repeat is a delivery whose try another one has.
type repeat interface {
	// repeated tells it that the other one is over, and whether that settled its message.
	repeated(settled bool)
	// isOver says that its session has ended: it is repeated for nothing.
	isOver() bool
}

func newMemory(limit int) *memory {
	return &memory{
		limit: limit, seeds: [...]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
		tries: map[try]bool{}, waiting: map[try][]repeat{},
	}
}

// try is the hash of a message's next attempt. Two records may have had the same position, where
// the log was cut or the topic made anew. If a reader saw that, or its commit showed it, the
// envelope's Log tells them apart, even where they are byte for byte the same; if none did, time,
// key and value do. Log also tells a record that an operator wants once more from the first time.
// What has no position has a Token: without it the second message of a producer who uses an id
// twice would be acked uncalled.
func (m *memory) try(e *envelope.Envelope) (t try) {
	if m == nil {
		return try{}
	}
	b := make([]byte, 0, 256)
	b = binary.AppendUvarint(b, uint64(e.Message.Replays))
	b = binary.AppendUvarint(b, uint64(e.Message.Attempt))
	b = binary.AppendUvarint(b, uint64(e.Message.Snoozes)) // what was put off comes back with the same attempt
	b = binary.AppendUvarint(b, uint64(e.Log))
	b = binary.AppendVarint(b, e.Message.Time.UnixMilli())
	b = binary.AppendUvarint(b, uint64(len(e.Message.ID))) // so that no part runs into the next
	b = binary.AppendUvarint(b, uint64(len(e.Message.Key)))
	b = binary.AppendUvarint(b, uint64(len(e.Token)))
	b = append(b, e.Message.ID...)
	b = append(b, e.Token...)
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

// begin reports whether the try is new: then the caller runs it, and calls end. If it is not, it is
// a repeat, and of.repeated is called once: now, with true, if the try was settled before; if the
// try runs, when it ends, or when it is repeated once more and the session of of has ended by then.
func (m *memory) begin(t try, of repeat) bool {
	if m == nil {
		return true
	}
	var over []repeat
	m.mu.Lock()
	settled, known := m.tries[t]
	switch {
	case !known:
		m.tries[t] = false
	case !settled:
		m.waiting[t] = slices.DeleteFunc(append(m.waiting[t], of), func(of repeat) bool {
			ended := of.isOver()
			if ended {
				over = append(over, of)
			}
			return ended
		})
	}
	m.mu.Unlock()
	if settled {
		of.repeated(true)
	}
	for _, of := range over {
		of.repeated(false)
	}
	return !known
}

// knows says that the try runs or was settled.
func (m *memory) knows(t try) bool {
	if m == nil {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	_, known := m.tries[t]
	return known
}

// end ends a try that begin called new, and tells its repeats.
func (m *memory) end(t try, settled bool) {
	if m == nil {
		return
	}
	m.mu.Lock()
	waiting := m.waiting[t]
	delete(m.waiting, t)
	if settled {
		m.remember(t)
	} else {
		delete(m.tries, t)
	}
	m.mu.Unlock()
	// Without the lock: a repeat acks or releases its delivery.
	for _, of := range waiting {
		of.repeated(settled)
	}
}

// remember enters a settled try, in place of the oldest where there is no more room. m.mu is held.
func (m *memory) remember(t try) {
	m.tries[t] = true
	if len(m.ring) < m.limit {
		m.ring = append(m.ring, t)
		return
	}
	delete(m.tries, m.ring[m.next])
	m.ring[m.next] = t
	m.next = (m.next + 1) % m.limit
}
