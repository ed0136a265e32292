package retry

import (
	"sync"

	"github.com/stepwell/stepwell"
)

// logs has the number of each partition's log, as it was told.
type logs struct{ numbers sync.Map }

type place struct {
	topic     string
	partition int32
}

// set says that the partition's log has this number from now on.
func (l *logs) set(topic string, partition int32, number uint32) {
	l.numbers.Store(place{topic, partition}, number)
}

// of is the partition's number; 0: it has none.
func (l *logs) of(o stepwell.Origin) uint32 {
	n, _ := l.numbers.Load(place{o.Topic, o.Partition})
	number, _ := n.(uint32)
	return number
}
