package streams

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell/internal/failpoint"
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

// openFetchers makes the clients. The group's member may be given partitions before this returns:
// what it tells us waits at the gate.
func (r *Reader) openFetchers(life context.Context) (err error) {
	r.gate.change(func() {
		for i := range r.cfg.Kafka.Fetchers {
			if err = r.openFetcher(life, i); err != nil {
				return
			}
		}
	})
	if err != nil {
		r.closeFetchers()
		return fmt.Errorf("stream %s: kafka client: %w", r.cfg.Stream, err)
	}
	return nil
}

func (r *Reader) openFetcher(life context.Context, number int) (err error) {
	f := &fetcher{member: number == 0, reading: map[string]map[int32]bool{}, idle: map[string]time.Time{}, resting: map[topicPartition]bool{}}
	options := r.options
	if f.member {
		life, r.endMember = context.WithCancel(life)
	} else {
		options = func(life context.Context) []kgo.Opt { return r.fetchOptions(life, number) }
	}
	if f.client, err = kgo.NewClient(options(life)...); err != nil {
		return err
	}
	if f.member {
		r.client = f.client
		r.status.connects(f.client)
	}
	r.fetchers = append(r.fetchers, f)
	return nil
}

// closeFetchers takes as long as the slowest: each ends its fetch sessions with the brokers.
func (r *Reader) closeFetchers() {
	var all sync.WaitGroup
	for _, f := range r.fetchers {
		all.Go(f.client.Close)
	}
	all.Wait()
}

// updateFetches says how much to ask for in one fetch.
func (r *Reader) updateFetches(whole, partition int32) {
	for _, f := range r.fetchers {
		f.client.UpdateFetchMaxBytes(whole, partition)
	}
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

// rest lets the client fetch nothing of a partition until [Reader.wake].
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

// wake fetches again what has rested. The group's member leaves alone what is not its to read by
// now.
func (r *Reader) wake() {
	for _, f := range r.fetchers {
		rested := f.rested()
		if len(rested) == 0 {
			continue
		}
		r.gate.change(func() {
			again := map[string][]int32{}
			for _, tp := range rested {
				if !f.member || r.parts.isReadBy(tp, f) {
					again[tp.topic] = append(again[tp.topic], tp.partition)
				}
			}
			f.client.ResumeFetchPartitions(again)
		})
	}
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

// divide leaves to the group's member what it reads itself, before it begins.
func (r *Reader) divide(mine, others map[string][]int32) {
	if len(r.fetchers) < 2 {
		return
	}
	if len(mine) > 0 {
		r.client.ResumeFetchPartitions(mine)
	}
	if len(others) > 0 {
		r.client.PauseFetchPartitions(others)
	}
}

// keep leaves partitions to the group's member that were to be read by others: those whose commit
// names no leader epoch, as one that a tool wrote. Where it lies beyond a log that was cut, the
// member finds out when it fetches, and begins at the start. A client that does not know the topic
// yet asks where the log ends, and would begin there. Only within gate.change.
func (r *Reader) keep(parts map[string][]int32) {
	if len(r.fetchers) < 2 || len(parts) == 0 {
		return
	}
	r.parts.leaveTo(r.fetchers[0], parts)
	r.client.ResumeFetchPartitions(parts)
}

// readFrom tells the other fetchers where to begin with what is still ours. Only within
// gate.change.
func (r *Reader) readFrom(offsets map[string]map[int32]kgo.Offset) {
	for _, f := range r.fetchers {
		if f.member {
			continue
		}
		share := map[string]map[int32]kgo.Offset{}
		for topic, parts := range offsets {
			for id, at := range parts {
				if !r.parts.isReadBy(topicPartition{topic, id}, f) {
					continue
				}
				if share[topic] == nil {
					share[topic] = map[int32]kgo.Offset{}
				}
				share[topic][id] = at
			}
		}
		f.read(share)
		if len(share) > 0 {
			failpoint.Hit("shared out")
		}
	}
}

// cease tells the other fetchers what to read no more. Only within gate.change.
func (r *Reader) cease(parts []topicPartition) {
	for _, f := range r.fetchers {
		f.cease(parts)
	}
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
