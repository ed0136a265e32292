package streams

import (
	"math"
	"strconv"
	"strings"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/crew"
	"github.com/stepwell/stepwell/internal/envelope"
)

// slabSize is how many messages are allocated at once. A handler that keeps one message keeps its
// neighbours' structs too, though not their values.
//
// As many as fill one of the allocator's sizes, since it rounds up to the next, which costs time:
// with 64 of them 14,344 bytes would take 16,384.
const slabSize = min(crew.StretchSize, (allocated-spanHeader)/int(unsafe.Sizeof(stepwell.Message{})))

const (
	allocated  = 14336 // a size class of Go's runtime (internal/runtime/gc, sizeclasses.go)
	spanHeader = 8     // of what has pointers and more than 512 bytes: its type
)

// slab makes messages of records. Only the messages themselves leave it.
type slab struct {
	stream string
	prefix []byte // of all IDs; empty: they are not that simple
	offset int64  // the last one, and its ID: most often the next is one more
	last   []byte
	ends   [slabSize]int
}

// newSlab is for the records of one partition.
func newSlab(stream string, tp topicPartition) slab {
	s := slab{stream: stream}
	zero := envelope.ID(tp.topic, tp.partition, 0)
	if longest := envelope.ID(tp.topic, tp.partition, math.MaxInt64); strings.HasPrefix(longest, zero[:len(zero)-1]) {
		s.prefix = []byte(zero[:len(zero)-1])
	}
	return s
}

// id returns the ID of a record, until it is asked for the next.
func (s *slab) id(r *kgo.Record) []byte {
	switch {
	case len(s.prefix) == 0:
		s.last = envelope.AppendID(s.last[:0], r.Topic, r.Partition, r.Offset)
	case r.Offset != s.offset+1 || len(s.last) == 0 || !increment(s.last[len(s.prefix):]):
		s.last = strconv.AppendInt(append(s.last[:0], s.prefix...), r.Offset, 10)
	}
	s.offset = r.Offset
	return s.last
}

// increment adds one to a decimal number in place. It reports false, and leaves zeros, where that
// takes one digit more.
func increment(digits []byte) bool {
	for i := len(digits) - 1; i >= 0; i-- {
		if digits[i] != '9' {
			digits[i]++
			return true
		}
		digits[i] = '0'
	}
	return false
}

// messages makes messages of at most slabSize records and gives these back to the client. What it
// returns belongs to the handlers; nothing is used again.
func (s *slab) messages(records []*kgo.Record) []stepwell.Message {
	headers := 0
	var all strings.Builder
	for i, r := range records {
		id := s.id(r)
		if i == 0 {
			all.Grow(len(records) * (len(id) + 1)) // the offsets may come to one digit more
		}
		all.Write(id)
		s.ends[i] = all.Len()
		headers += len(r.Headers)
	}
	ids := all.String()
	var flat []stepwell.Header
	if headers > 0 {
		flat = make([]stepwell.Header, 0, headers)
	}
	messages := make([]stepwell.Message, len(records))
	from := 0
	for i, r := range records {
		m := &messages[i]
		m.ID, from = ids[from:s.ends[i]], s.ends[i]
		m.Stream = s.stream
		m.Key, m.Value = r.Key, r.Value
		m.Time = r.Timestamp
		m.Attempt = 1
		// one by one: what is zero already is not written
		m.Origin.Topic, m.Origin.Partition, m.Origin.Offset = r.Topic, r.Partition, r.Offset
		if len(r.Headers) > 0 {
			start := len(flat)
			for _, h := range r.Headers {
				flat = append(flat, stepwell.Header{Key: h.Key, Value: h.Value})
			}
			// appending to one message's headers leaves the next one's alone
			m.Headers = flat[start:len(flat):len(flat)]
		}
	}
	// a loop of its own: each is an atomic operation, which would wait until the message is written
	// to memory
	for _, r := range records {
		r.Recycle()
	}
	return messages
}

// sizeOf is what a record holds: key, value and headers.
func sizeOf(r *kgo.Record) int {
	n := len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return n
}
