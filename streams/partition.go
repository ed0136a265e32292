package streams

import (
	"context"
	"hash/maphash"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell/internal/crew"
	"github.com/stepwell/stepwell/internal/ledger"
)

// topicPartition names a partition.
type topicPartition struct {
	topic     string
	partition int32
}

// shared is what the partitions of a reader work with. Of the parts that see all partitions it has
// only what one partition asks of them.
type shared struct {
	*common
	crew    *crew.Crew
	load    *load
	seed    maphash.Seed   // of the hashes of keys
	workers sync.WaitGroup // for the crew, and for what waits for a partition
	// hurry asks for a commit at once.
	hurry func()
	// living says which processes are in the group now.
	living func(context.Context) (map[uint32]bool, error)
	// condemned is how many records were condemned in a row, in all partitions.
	condemned func() int
}

// partition is one assignment of a partition to us: what was read of it, what is settled, and its
// roster in the crew. When the same partition is assigned anew there is a new one.
type partition struct {
	topicPartition
	*shared
	fetcher *fetcher // that reads it
	// given is which of all assignments of the group it is; one whose log was cut begins anew
	// within it
	given int

	// owned ends when the partition is no longer ours to settle: what was not sent by then is the
	// next owner's to send.
	owned  context.Context
	disown context.CancelCauseFunc
	// handling is the context of handler calls. It ends with owned, and earlier when a drain has no
	// more time.
	handling context.Context
	halt     context.CancelCauseFunc

	roster *crew.Roster // what of it waits and runs; mu guards it, too
	// done is closed when nothing of it runs, or will.
	done chan struct{}
	// placed says that its commit was read, or that there is none.
	placed atomic.Bool

	mu       sync.Mutex
	blocked  bool // calls of the assignment before this one run
	ledger   ledger.Ledger
	queue    []chunk // not looked at yet
	slab     slab
	over     bool // done is closed
	released bool // no longer counted in the reader's totals
	quiet    chan struct{}
	suspects suspects
}

func newPartition(s *shared, tp topicPartition) *partition {
	p := &partition{
		topicPartition: tp, shared: s, done: make(chan struct{}),
		ledger: ledger.New(s.cfg.Guard.rules()), slab: newSlab(s.cfg.Stream, tp),
	}
	p.roster = s.crew.NewRoster(p, &p.suspects)
	p.suspects.begin(p)
	p.owned, p.disown = context.WithCancelCause(s.life)
	p.handling, p.halt = context.WithCancelCause(p.owned)
	return p
}

// restored notes what the commit says from which we begin.
func (p *partition) restored(offset int64, metadata string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ledger.Restore(offset, metadata)
}

// begin says where the partition is read from, as soon as that is known.
func (p *partition) begin(at ledger.Position, restate bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ledger.Begin(at, restate)
}

// append takes fetched records and returns how many, with their bytes, were added. Markers of
// transactions, which nobody is to see, are settled. at is how much the reader had fetched before
// them.
func (p *partition) append(f *kgo.FetchPartition, topicID [16]byte, at int64) (records, bytes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ledger.SawEnd(p.endOf(f))
	p.ledger.Guard.SawEnd(f.HighWatermark)
	p.ledger.Identify(topicID)
	markers := 0
	for _, r := range f.Records {
		size := sizeOf(r)
		bytes += size
		known, marker := p.ledger.Add(r.Offset, r.LeaderEpoch, size), r.Attrs.IsControl()
		if known || marker {
			p.settled(r.Offset, r.Offset)
		}
		if marker {
			markers++
		}
	}
	records = len(f.Records)
	if markers > 0 {
		f.Records = slices.DeleteFunc(f.Records, func(r *kgo.Record) bool { return r.Attrs.IsControl() })
	}
	if len(f.Records) > 0 {
		p.queue = append(p.queue, chunk{f.Records, at})
	}
	p.roster.Came()
	return records, bytes
}

// position is the offset that the next record should have; negative: not known.
func (p *partition) position() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ledger.Expected()
}

// goesOnAt is where the partition is to be read from where its log was cut: where it was cut, or at
// the first open record, if that comes before.
func (p *partition) goesOnAt(cut ledger.Position) ledger.Position {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.roster.Flush()
	return p.ledger.ResumeAt(cut)
}

// dirty returns what is to be committed, if anything is; its metadata has at most limit bytes.
// Where a broker takes too little metadata for a mark, deaths are not counted.
func (p *partition) dirty(limit int) (ledger.Checkpoint, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.roster.Flush()
	p.look()
	if p.ledger.Guard.Counts() && !p.ledger.Guard.Fits(limit) {
		p.suspects.unguard()
	}
	return p.ledger.Checkpoint(limit, p.roster.Running())
}

// stored notes a commit that the broker has.
func (p *partition) stored(c ledger.Checkpoint) {
	p.mu.Lock()
	defer p.mu.Unlock()
	free := p.ledger.Guard.Free()
	p.ledger.Stored(c)
	if p.ledger.Guard.Counts() {
		p.suspects.giveTokenBack()
	}
	if !free {
		p.roster.Offer()
	}
}

// release takes the partition out of the totals and ends its contexts. Tickets that settle later
// have no effect.
func (p *partition) release(cause error) {
	p.halt(cause)
	p.disown(cause)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.roster.Flush()
	if p.released {
		return
	}
	p.released = true
	p.suspects.end()
	p.queue = nil
	p.roster.Clear()
	p.load.remove(p.ledger.Left())
}

// lag is how many records lie between the settled prefix and the end of the log.
func (p *partition) lag() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ledger.Lag()
}

// sawEnd notes where the log ends.
func (p *partition) sawEnd(offset int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ledger.SawEnd(offset)
}

// isDone says that nothing of it runs, or will.
func (p *partition) isDone() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// goOn is for a log that is another one from here on.
func (p *partition) goOn(offset int64) {
	p.mu.Lock()
	p.ledger.GoOn(offset)
	p.mu.Unlock()
	p.cfg.Forgotten(p.topic, p.partition)
}

// logger names the record.
func (p *partition) logger(offset int64) *slog.Logger {
	return p.log.With("topic", p.topic, "partition", p.partition, "offset", offset)
}
