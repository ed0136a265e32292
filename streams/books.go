package streams

import (
	"sync"

	"github.com/stepwell/stepwell/internal/ledger"
)

// books are the ledger of a partition with its lock, which guards what else the partition has, too:
// to hand out and to settle are one step each.
type books struct {
	mu     sync.Mutex
	ledger ledger.Ledger
	quiet  chan struct{} // closed when all that was handed out is settled; nil: nobody waits
}

// Lock takes the lock.
func (b *books) Lock() { b.mu.Lock() }

// Unlock gives it back.
func (b *books) Unlock() { b.mu.Unlock() }

// restored notes what the commit says from which we begin.
func (b *books) restored(offset int64, metadata string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ledger.Restore(offset, metadata)
}

// begin says where the partition is read from, as soon as that is known.
func (b *books) begin(at ledger.Position, restate bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ledger.Begin(at, restate)
}

// goOn is for a log that is another one from here on.
func (b *books) goOn(offset int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ledger.GoOn(offset)
}

// position is the offset that the next record should have; negative: not known.
func (b *books) position() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ledger.Expected()
}

// topicNow is the ID of the topic whose records were read last; zero: none was, or the brokers know
// no IDs.
func (b *books) topicNow() [16]byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ledger.TopicID()
}

// sawEnd notes where the log ends.
func (b *books) sawEnd(offset int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ledger.SawEnd(offset)
}

// wantsEnd says that it is to be seen where the log ends, since owners died.
func (b *books) wantsEnd() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ledger.Guard.WantsEnd()
}

// emptied notes that the log has nothing from the expected offset on; see [ledger.Ledger.Emptied].
func (b *books) emptied(expected, end int64) (gone int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ledger.Emptied(expected, end)
}

// lag is how many records lie between the settled prefix and the end of the log.
func (b *books) lag() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ledger.Lag()
}

// quieted returns a channel that is closed when everything handed out is settled. Ask after the
// partition is done.
func (b *books) quieted() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.quiet != nil {
		return b.quiet // a revoke and a stop may wait at once
	}
	c := make(chan struct{})
	if b.ledger.Quiet() {
		close(c)
	} else {
		b.quiet = c
	}
	return c
}
