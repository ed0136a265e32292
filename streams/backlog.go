package streams

import (
	"bytes"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
)

// backlog is what was fetched of a partition and is no message yet: records are made messages when
// the crew takes them.
type backlog struct {
	chunks []chunk
	slab   slab
}

// chunk is what came together of a partition; at is how much was fetched before them.
type chunk struct {
	records []*kgo.Record
	at      int64
	owned   bool // the records have memory of their own
}

func (b *backlog) add(records []*kgo.Record, at int64) {
	b.chunks = append(b.chunks, chunk{records: records, at: at})
}

func (b *backlog) isEmpty() bool { return len(b.chunks) == 0 }

func (b *backlog) clear() { b.chunks = nil }

// next is what comes next, at most as many records as one slab has messages. Of those with memory
// of their own it is one: in a slab with others each would keep theirs alive.
func (b *backlog) next() []*kgo.Record {
	records := b.chunks[0].records
	if b.chunks[0].owned {
		return records[:1]
	}
	return records[:min(slabSize, len(records))]
}

// take makes messages of the first n records of next; at is how much was fetched before them.
func (b *backlog) take(n int) (messages []stepwell.Message, at int64) {
	first := &b.chunks[0]
	records, at := first.records[:n], first.at
	if n < len(first.records) {
		first.records = first.records[n:]
	} else {
		*first = chunk{}
		b.chunks = b.chunks[1:]
	}
	return b.slab.messages(records), at
}

// own gives the records that were fetched between from and to memory of their own.
func (b *backlog) own(from, to int64) {
	for i := range b.chunks {
		c := &b.chunks[i]
		if c.at < from || c.at >= to {
			continue
		}
		c.owned = true
		for _, r := range c.records {
			r.Key, r.Value = bytes.Clone(r.Key), bytes.Clone(r.Value)
			for i := range r.Headers {
				r.Headers[i].Value = bytes.Clone(r.Headers[i].Value)
			}
		}
	}
}
