package retry

import (
	"math/rand/v2"
	"sync"

	"github.com/stepwell/stepwell"
)

// logs has a number for each partition whose positions no longer mean the messages that they meant
// before.
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
