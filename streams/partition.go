package streams

import (
	"context"
	"hash/maphash"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

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
	// condemned is how many records were condemned in a row, in all partitions; endRow ends it.
	condemned func() int
	endRow    func()
}

// partition is one assignment of a partition to us. When the same partition is assigned anew there
// is a new one.
type partition struct {
	topicPartition
	*shared
	books // what is settled of it, and the lock that guards the rest
	// lifetime says until when the records may be settled, and their calls run.
	lifetime

	fetcher *fetcher // that reads it
	// given is which of all assignments of the group it is; one whose log was cut begins anew
	// within it
	given int
	// placed says that its commit was read, or that there is none.
	placed atomic.Bool

	roster   *crew.Roster // what of it waits and runs
	backlog  backlog      // what was fetched, and the crew has not taken yet
	gathered int          // messages that wait for a call with others, or are in one
	suspects suspects
	released bool   // no longer counted in the load
	numbered uint32 // the number of its log that was told last: see tellLog
}

func newPartition(s *shared, tp topicPartition) *partition {
	p := &partition{
		topicPartition: tp, shared: s, lifetime: newLifetime(s.life),
		books: books{ledger: ledger.New(s.cfg.Guard.rules(), s.cfg.draw())}, backlog: backlog{slab: newSlab(s.cfg.Stream, tp)},
	}
	p.roster = s.crew.NewRoster(p, &p.suspects)
	p.suspects.begin(p)
	return p
}

// append takes fetched records and returns how many, with their bytes, were added. Markers of
// transactions, which nobody is to see, are settled. at is how much the reader had fetched before
// them.
func (p *partition) append(f *kgo.FetchPartition, topicID [16]byte, at int64) (records, bytes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ledger.SawEnd(p.endOf(f))
	p.ledger.Identify(topicID)
	p.ledger.Reserve(len(f.Records))
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
	tellLog(p)
	records = len(f.Records)
	if markers > 0 {
		f.Records = slices.DeleteFunc(f.Records, func(r *kgo.Record) bool { return r.Attrs.IsControl() })
	}
	if len(f.Records) > 0 {
		p.backlog.add(f.Records, at)
	}
	p.roster.Came()
	return records, bytes
}

// tellLog tells of which log the records are that are handed out next, where nobody was told yet.
// Locked; a function, since a partition has as many methods as a type may have.
func tellLog(p *partition) {
	if log := p.ledger.Log.Number; log != p.numbered {
		p.numbered = log
		p.cfg.Numbered(p.topic, p.partition, log)
	}
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
	now := time.Now()
	p.ledger.Oldest(now) // notes since when
	p.suspects.outlive(now)
	if p.ledger.Guard.Counts() && !p.ledger.Guard.Fits(limit) {
		p.suspects.unguard()
	}
	return p.ledger.Checkpoint(limit, p.running())
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
	p.cancelCalls(cause)
	p.disown(cause)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.roster.Flush()
	if p.released {
		return
	}
	p.released = true
	p.suspects.end()
	p.backlog.clear()
	p.roster.Clear()
	p.load.remove(p.ledger.Left())
}

// logger names the record.
func (p *partition) logger(offset int64) *slog.Logger {
	return p.log.With("topic", p.topic, "partition", p.partition, "offset", offset)
}
