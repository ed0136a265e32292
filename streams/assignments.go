package streams

import (
	"maps"
	"sync"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/stepwell/stepwell/internal/ledger"
)

// assignments are the partitions that are ours, and those that were while calls of them run. What
// is ours changes only within gate.change, but for a log that was cut: see replace.
type assignments struct {
	*shared

	mu      sync.Mutex
	owned   map[topicPartition]*partition
	given   int                           // how many partitions the group has given us
	ending  map[topicPartition]*partition // given up while calls of them ran
	closing bool                          // nothing becomes ours any more
}

func newAssignments(s *shared) *assignments {
	return &assignments{shared: s, owned: map[topicPartition]*partition{}, ending: map[topicPartition]*partition{}}
}

// assign makes tp ours, as the group says, and leaves it to one of the fetchers. Only within
// gate.change. It returns nil once nothing becomes ours any more.
func (a *assignments) assign(tp topicPartition, fetchers []*fetcher) *partition {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closing {
		return nil
	}
	if old := a.owned[tp]; old != nil {
		a.dropLocked(old, ErrLost)
	}
	a.given++
	p := newPartition(a.shared, tp)
	p.fetcher, p.given = a.chooseLocked(tp, fetchers), a.given
	a.ownLocked(p)
	return p
}

// chooseLocked chooses who reads a partition: who reads the fewest of its topic, then the fewest of
// all.
func (a *assignments) chooseLocked(tp topicPartition, fetchers []*fetcher) *fetcher {
	of := make(map[*fetcher]int, len(fetchers))
	all := make(map[*fetcher]int, len(fetchers))
	for _, p := range a.owned {
		all[p.fetcher]++
		if p.topic == tp.topic {
			of[p.fetcher]++
		}
	}
	var best *fetcher
	for _, f := range fetchers {
		if best == nil || of[f] < of[best] || of[f] == of[best] && all[f] < all[best] {
			best = f
		}
	}
	return best
}

// leaveTo has another fetcher read partitions. Only within gate.change.
func (a *assignments) leaveTo(f *fetcher, named map[string][]int32) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.pickLocked(named) {
		p.fetcher = f
	}
}

// ownLocked makes p what we have of its partition. Nothing of it is handed out while calls of an
// assignment before it run: one key never runs twice at once.
func (a *assignments) ownLocked(p *partition) {
	a.owned[p.topicPartition] = p
	if before := a.ending[p.topicPartition]; before != nil && !before.isDone() {
		p.awaits = before
		a.workers.Go(func() {
			<-before.done
			p.unblock()
		})
	}
}

// replace begins a partition anew at a position of its log, which was cut. Only within gate.poll,
// by who reads it: a stop waits for the polls before it lets nothing become ours any more.
func (a *assignments) replace(p *partition, at ledger.Position) {
	fresh := newPartition(a.shared, p.topicPartition)
	fresh.fetcher, fresh.given = p.fetcher, p.given
	fresh.placed.Store(true)
	fresh.begin(at, true)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.dropLocked(p, ErrLost)
	a.ownLocked(fresh)
}

// drop ends the contexts of partitions with cause and forgets that they are ours. It returns which
// of them were ours until now, also where they were begun anew. Only within gate.change.
func (a *assignments) drop(parts []*partition, cause error) (dropped []topicPartition) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range parts {
		if now := a.owned[p.topicPartition]; now != nil && now.given == p.given {
			a.dropLocked(now, cause)
			dropped = append(dropped, p.topicPartition)
		}
	}
	return dropped
}

func (a *assignments) dropLocked(p *partition, cause error) {
	delete(a.owned, p.topicPartition)
	p.stop()
	p.release(cause)
	maps.DeleteFunc(a.ending, func(_ topicPartition, q *partition) bool { return q.isDone() })
	if !p.isDone() {
		a.ending[p.topicPartition] = p
	}
}

// close lets nothing become ours any more, for a stop.
func (a *assignments) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closing = true
}

// pick returns those of the partitions that are ours.
func (a *assignments) pick(named map[string][]int32) []*partition {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.pickLocked(named)
}

func (a *assignments) pickLocked(named map[string][]int32) (parts []*partition) {
	for topic, ids := range named {
		for _, id := range ids {
			if p := a.owned[topicPartition{topic, id}]; p != nil {
				parts = append(parts, p)
			}
		}
	}
	return parts
}

// all returns what is ours.
func (a *assignments) all() []*partition {
	a.mu.Lock()
	defer a.mu.Unlock()
	parts := make([]*partition, 0, len(a.owned))
	for _, p := range a.owned {
		parts = append(parts, p)
	}
	return parts
}

// ofTopic returns our partitions of a topic: those whose records are of the topic with this id, and
// those of which that is not known.
func (a *assignments) ofTopic(topic string, id kadm.TopicID) (same, others []*partition) {
	for _, p := range a.all() {
		switch {
		case p.topic != topic:
		case id != kadm.TopicID{} && p.topicNow() == id:
			same = append(same, p)
		default:
			others = append(others, p)
		}
	}
	return same, others
}

// isOurs says whether p is the present assignment of its partition.
func (a *assignments) isOurs(p *partition) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return p != nil && a.owned[p.topicPartition] == p
}

// isReadBy says whether tp is ours, and f reads it.
func (a *assignments) isReadBy(tp topicPartition, f *fetcher) bool {
	p := a.lookup(tp)
	return p != nil && p.fetcher == f
}

// lookup returns the present assignment of a partition; nil: it is not ours.
func (a *assignments) lookup(tp topicPartition) *partition {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.owned[tp]
}

// left returns the partitions that were given up while calls of them ran.
func (a *assignments) left() []*partition {
	a.mu.Lock()
	defer a.mu.Unlock()
	var parts []*partition
	for _, p := range a.ending {
		parts = append(parts, p)
	}
	return parts
}

// cancel ends the context of every handler.
func (a *assignments) cancel(cause error) {
	for _, p := range append(a.all(), a.left()...) {
		p.cancelCalls(cause)
	}
}

// flush brings the load up to date: calls that have ended since are counted.
func (a *assignments) flush() {
	for _, p := range a.all() {
		p.mu.Lock()
		p.roster.Flush()
		p.mu.Unlock()
	}
}

// condemnedInARow is how many records of the stream's partitions here were condemned since the row
// last ended; see the guard.
func (a *assignments) condemnedInARow() (n int) {
	for _, p := range a.all() {
		p.mu.Lock()
		n += p.ledger.Guard.Now().Condemned
		p.mu.Unlock()
	}
	return n
}

// endRow ends the row in all partitions.
func (a *assignments) endRow() {
	for _, p := range a.all() {
		p.mu.Lock()
		p.ledger.Guard.EndRow()
		p.mu.Unlock()
	}
}
