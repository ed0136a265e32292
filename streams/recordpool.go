package streams

import (
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// recordPool lends the client memory for records, since ours are copied into messages and then of
// no use. Keys and values are not lent: they belong to the messages. Records that are never handed
// out are left to the garbage collector.
type recordPool struct{ free sync.Pool }

var _ kgo.PoolRecords = (*recordPool)(nil)

// GetRecords is called by the client for each batch.
func (r *recordPool) GetRecords(n int) []kgo.Record {
	if s, ok := r.free.Get().(*[]kgo.Record); ok && cap(*s) >= n {
		return *s
	}
	return make([]kgo.Record, n)
}

// PutRecords is called when all records of a batch are recycled.
func (r *recordPool) PutRecords(s []kgo.Record) { r.free.Put(&s) }
