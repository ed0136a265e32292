package streams

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell/internal/ledger"
)

// fetcher is a client that reads a share of our partitions. A client has one fetch under way with
// each broker, and asks for the next when the last one is handed out; with several, one is on its
// way while another is worked on.
//
// The first fetcher is the member of the group, which commits for all of them. The others know
// nothing of the group: they read what they are told to, and are told to stop. Like the partitions,
// what they read changes only within gate.change.
type fetcher struct {
	client  *kgo.Client
	member  bool
	average averageSize
	// reading is what a fetcher that is no member was told to read, by topic.
	reading map[string]map[int32]bool

	mu   sync.Mutex
	idle map[string]time.Time // topics of which nothing is read, and since when
	// resting are partitions whose fetches fail: the client would ask for them thousands of times a
	// second.
	resting map[topicPartition]bool
}

func newFetcher(member bool) *fetcher {
	return &fetcher{member: member, reading: map[string]map[int32]bool{}, idle: map[string]time.Time{}, resting: map[topicPartition]bool{}}
}

// read begins at these offsets, but for what is read already.
func (f *fetcher) read(offsets map[string]map[int32]kgo.Offset) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for topic, parts := range offsets {
		delete(f.idle, topic)
		if f.reading[topic] == nil {
			f.reading[topic] = map[int32]bool{}
		}
		for id := range parts {
			if f.reading[topic][id] {
				delete(parts, id)
			}
			f.reading[topic][id] = true
		}
	}
	f.client.AddConsumePartitions(offsets)
}

// cease drops what is buffered of the partitions as well. The client keeps what it knows of their
// topic for now: to forget it would wait for a request for metadata that is under way, which takes
// long when brokers are away.
func (f *fetcher) cease(parts []topicPartition) {
	gone := map[string][]int32{}
	for _, tp := range parts {
		if f.reading[tp.topic][tp.partition] {
			delete(f.reading[tp.topic], tp.partition)
			gone[tp.topic] = append(gone[tp.topic], tp.partition)
		}
	}
	if len(gone) == 0 {
		return
	}
	f.client.RemoveConsumePartitions(gone)
	f.mu.Lock()
	defer f.mu.Unlock()
	for topic := range gone {
		if len(f.reading[topic]) == 0 {
			delete(f.reading, topic)
			f.idle[topic] = time.Now()
		}
	}
}

// seek has the client read a partition from there, and drops what is buffered of it.
func (f *fetcher) seek(tp topicPartition, at ledger.Position) {
	f.client.SetOffsets(map[string]map[int32]kgo.EpochOffset{tp.topic: {tp.partition: {Epoch: at.Epoch, Offset: at.Offset}}})
}

// rest lets the client fetch nothing of a partition until [clients.wake].
func (f *fetcher) rest(tp topicPartition) {
	f.client.PauseFetchPartitions(map[string][]int32{tp.topic: {tp.partition}})
	f.mu.Lock()
	defer f.mu.Unlock()
	f.resting[tp] = true
}

// rested returns, once, what has rested.
func (f *fetcher) rested() []topicPartition {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := slices.Collect(maps.Keys(f.resting))
	clear(f.resting)
	return all
}

// idleSince returns, once, the topics of which nothing has been read since then.
func (f *fetcher) idleSince(then time.Time) (topics []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for topic, at := range f.idle {
		if at.Before(then) {
			topics = append(topics, topic)
			delete(f.idle, topic)
		}
	}
	return topics
}

// inOrder lists partitions by topic and number, so that all members share them out alike.
func inOrder(named map[string][]int32) (all []topicPartition) {
	for topic, ids := range named {
		for _, id := range ids {
			all = append(all, topicPartition{topic, id})
		}
	}
	slices.SortFunc(all, func(a, b topicPartition) int {
		return cmp.Or(cmp.Compare(a.topic, b.topic), cmp.Compare(a.partition, b.partition))
	})
	return all
}
