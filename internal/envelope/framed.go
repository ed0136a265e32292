package envelope

import (
	"bytes"
	"encoding/binary"
	"errors"

	"github.com/stepwell/stepwell"
)

// The framed layout of a body, for records whose key and headers do not fit AMQP headers:
//
//	"SWF1"                          magic
//	bytes                           the record's key
//	uvarint                         number of the record's headers
//	  uvarint n, n bytes, bytes     name and value of each
//	the rest                        the record's value
//
// where bytes is a uvarint, 0 for nil and else the length plus one, followed by that many bytes.
const magic = "SWF1"

var errFrame = errors.New("body is not as its layout says")

// frame writes a record into a body of the framed layout.
func frame(m *stepwell.Message) []byte {
	b := make([]byte, 0, len(magic)+recordSize(m)+len(m.Value))
	b = appendBytes(append(b, magic...), m.Key)
	b = binary.AppendUvarint(b, uint64(len(m.Headers)))
	for _, h := range m.Headers {
		b = binary.AppendUvarint(b, uint64(len(h.Key)))
		b = appendBytes(append(b, h.Key...), h.Value)
	}
	return append(b, m.Value...)
}

// appendBytes writes nil and an empty value differently, as Kafka does.
func appendBytes(b, v []byte) []byte {
	if v == nil {
		return append(b, 0)
	}
	return append(binary.AppendUvarint(b, uint64(len(v))+1), v...)
}

// recordSize is how many bytes key and headers take in a frame at most.
func recordSize(m *stepwell.Message) int {
	n := len(m.Key) + 2*binary.MaxVarintLen64
	for _, h := range m.Headers {
		n += len(h.Key) + len(h.Value) + 2*binary.MaxVarintLen64
	}
	return n
}

// unframe sets key, headers and value of m.
func unframe(m *stepwell.Message, body []byte) error {
	rest, ok := bytes.CutPrefix(body, []byte(magic))
	if !ok {
		return errFrame
	}
	r := &frameReader{rest: rest}
	m.Key = r.bytes()
	n := r.uvarint()
	// Before memory is made for as many headers as a foreign number says.
	if n > uint64(len(r.rest))/2 { // the shortest header has two bytes
		return errFrame
	}
	if n > 0 {
		m.Headers = make([]stepwell.Header, 0, n)
	}
	for range n {
		key := r.take(r.uvarint())
		m.Headers = append(m.Headers, stepwell.Header{Key: string(key), Value: r.bytes()})
	}
	m.Value = r.rest
	if r.failed {
		return errFrame
	}
	return nil
}

// frameReader remembers that something was missing.
type frameReader struct {
	rest   []byte
	failed bool
}

func (r *frameReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.failed, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *frameReader) take(n uint64) []byte {
	if n > uint64(len(r.rest)) {
		r.failed, r.rest = true, nil
		return nil
	}
	// The capacity ends here as well: who appends to a key must not write into what follows.
	taken := r.rest[:n:n]
	r.rest = r.rest[n:]
	return taken
}

func (r *frameReader) bytes() []byte {
	n := r.uvarint()
	if n == 0 {
		return nil
	}
	return r.take(n - 1)
}
