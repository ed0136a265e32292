package streams

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

const (
	// healInterval is the least time between two attempts to make the clients read a topic again.
	healInterval = 30 * time.Second
	// idleTopic is how long a fetcher remembers a topic of which it reads nothing.
	idleTopic = 30 * time.Second
)

// healer remembers which topics are to be looked for anew. An ask is kept until its topic's turn:
// some errors are told once.
type healer struct {
	asked    chan struct{}
	interval time.Duration

	mu     sync.Mutex
	wanted map[string]bool
	healed map[string]time.Time
}

func newHealer() *healer {
	return &healer{asked: make(chan struct{}, 1), interval: healInterval, wanted: map[string]bool{}, healed: map[string]time.Time{}}
}

// ask does not wait.
func (h *healer) ask(topic string) {
	h.mu.Lock()
	h.wanted[topic] = true
	h.mu.Unlock()
	select {
	case h.asked <- struct{}{}:
	default:
	}
}

// due returns the topics whose turn it is.
func (h *healer) due(now time.Time) (topics []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, topic := range slices.Sorted(maps.Keys(h.wanted)) {
		if at, ok := h.healed[topic]; !ok || now.Sub(at) > h.interval {
			topics = append(topics, topic)
		}
	}
	return topics
}

// done drops what was asked until now: it was about what the clients knew before.
func (h *healer) done(topic string, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.wanted, topic)
	maps.DeleteFunc(h.healed, func(_ string, at time.Time) bool { return now.Sub(at) > h.interval })
	h.healed[topic] = now
}

// healTopic makes the clients forget a topic and find it again. It is how a topic that was deleted
// and made anew is read: a client holds on to the old one for ever. Ours is dropped first, lest old
// offsets are committed for the new topic; where the topic is still the one that we read, calls may
// end and are committed before, as in a revoke. The group's member comes last: what it is given of
// the topic then, all read anew. It reports false when the cluster does not say which topic there
// is.
func (r *Reader) healTopic(ctx context.Context, topic string) bool {
	id, err := r.idOf(ctx, topic)
	if err != nil {
		return false
	}
	r.log.Warn("a topic cannot be read, perhaps it was made anew: looking for it again", "topic", topic)
	same, made := r.parts.ofTopic(topic, id)
	r.drop(made, ErrLost)
	r.giveBack(same)
	if ctx.Err() != nil {
		return false
	}
	var others sync.WaitGroup
	for _, f := range r.fetchers {
		if !f.member {
			others.Go(func() { r.purge(ctx, f, topic) })
		}
	}
	others.Wait()
	if ctx.Err() != nil {
		return false
	}
	r.client.PurgeTopicsFromConsuming(topic)
	r.client.ResumeFetchTopics(topic)
	r.client.AddConsumeTopics(topic)
	return true
}

// idOf asks for the id of a topic; zero where there is no such topic, or the brokers know no ids.
func (r *Reader) idOf(ctx context.Context, topic string) (kadm.TopicID, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	found, err := kadm.NewClient(r.client).ListTopicsWithInternal(ctx, topic)
	if err != nil {
		return kadm.TopicID{}, err
	}
	return found[topic].ID, nil
}

// giveBack gives partitions up as a revoke does: nothing more of them is read, their calls may end,
// and what is settled is committed, with the word that nobody died.
func (r *Reader) giveBack(parts []*partition) {
	if len(parts) == 0 {
		return
	}
	r.gate.change(func() {
		for _, p := range parts {
			r.cease([]topicPartition{p.topicPartition})
		}
		r.client.PauseFetchTopics(parts[0].topic)
	})
	r.handOver(parts, ErrLost)
}

// purge makes a fetcher that is no member forget topics. The client does so when a request for
// metadata that is under way is over, which takes long when brokers are away, and a stop does not
// wait for that: it ends with the client.
func (r *Reader) purge(ctx context.Context, f *fetcher, topics ...string) {
	purged := make(chan struct{})
	r.purges.Go(func() {
		defer close(purged)
		f.client.PurgeTopicsFromConsuming(topics...)
	})
	select {
	case <-purged:
	case <-ctx.Done():
	}
}

// forgetIdle makes fetchers forget topics of which they have read nothing for a while: a client
// asks for one that was deleted again and again.
func (r *Reader) forgetIdle(ctx context.Context, now time.Time) {
	for _, f := range r.fetchers {
		topics := f.idleSince(now.Add(-idleTopic))
		if len(topics) == 0 {
			continue
		}
		r.purge(ctx, f, topics...)
		r.gate.change(func() {
			for _, topic := range topics {
				if len(f.reading[topic]) > 0 { // it was told to read it meanwhile, and has forgotten that
					r.heal.ask(topic)
				}
			}
		})
	}
}
