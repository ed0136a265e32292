package streams

import (
	"math"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/envelope"
)

// slabSize is how many messages are allocated at once. A handler that keeps one message keeps its neighbours' structs too,
// though not their values.
const slabSize = 64

// slab makes messages of records. Only the messages themselves leave it.
type slab struct {
	stream string
	prefix []byte // of all IDs; empty: they are not that simple
	offset int64  // the last one, and in decimal: most often the next is one more
	digits []byte
	ids    []byte
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

// appendID appends the ID of a record.
func (s *slab) appendID(r *kgo.Record) {
	if len(s.prefix) == 0 {
		s.ids = envelope.AppendID(s.ids, r.Topic, r.Partition, r.Offset)
		return
	}
	if r.Offset != s.offset+1 || !increment(s.digits) {
		s.digits = strconv.AppendInt(s.digits[:0], r.Offset, 10)
	}
	s.offset = r.Offset
	s.ids = append(append(s.ids, s.prefix...), s.digits...)
}

// increment adds one to a decimal number in place. It reports false, and leaves zeros, where that takes one digit more.
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

// messages makes messages of at most slabSize records and gives these back to the client. What it returns belongs to the handlers; nothing
// is used again.
func (s *slab) messages(records []*kgo.Record) []stepwell.Message {
	headers := 0
	s.ids = s.ids[:0]
	for i, r := range records {
		s.appendID(r)
		s.ends[i] = len(s.ids)
		headers += len(r.Headers)
	}
	ids := string(s.ids)
	var all []stepwell.Header
	if headers > 0 {
		all = make([]stepwell.Header, 0, headers)
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
		m.Origin = stepwell.Origin{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset}
		if len(r.Headers) > 0 {
			start := len(all)
			for _, h := range r.Headers {
				all = append(all, stepwell.Header{Key: h.Key, Value: h.Value})
			}
			m.Headers = all[start:len(all):len(all)] // appending to one message's headers leaves the next one's alone
		}
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
