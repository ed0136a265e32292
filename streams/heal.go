package streams

import (
	"cmp"
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

// ask notes that a topic is to be found anew, and wakes who does that. It never blocks.
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
// is, nor where one begins that was left out for that.
func (s *supervisor) healTopic(ctx context.Context, topic string) bool {
	id, err := s.idOf(ctx, topic)
	if err != nil || isUnbegun(s.status, topic) && !s.canBegin(ctx, topic) {
		return false
	}
	s.log.Warn("a topic cannot be read, perhaps it was made anew: looking for it again", "topic", topic)
	same, made := s.parts.ofTopic(topic, id)
	for _, p := range made {
		s.late.saw(topic, p.topicNow())
	}
	s.late.saw(topic, id)
	s.rebalances.drop(made, ErrLost)
	s.rebalances.giveBack(same)
	if ctx.Err() != nil {
		return false
	}
	var others sync.WaitGroup
	for _, f := range s.clients.all {
		if !f.member {
			others.Go(func() { s.clients.purge(ctx, f, topic) })
		}
	}
	others.Wait()
	if ctx.Err() != nil {
		return false
	}
	s.clients.member().PurgeTopicsFromConsuming(topic)
	s.clients.member().ResumeFetchTopics(topic)
	s.clients.member().AddConsumeTopics(topic)
	return true
}

// canBegin says whether a topic that was left out can be listed by now. Until then the group is
// left in peace: each look by the client would be a rebalance for all of its members.
func (s *supervisor) canBegin(ctx context.Context, topic string) bool {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	_, unlisted, err := wholeTopics(kadm.NewClient(s.clients.member()).ListEndOffsets(ctx, topic))
	if why := cmp.Or(unlisted[topic], err); why != nil {
		s.status.begins(topic, cannotBegin(topic, why))
		return false
	}
	return true
}

// idOf asks for the id of a topic; zero where there is no such topic, or the brokers know no ids.
func (s *supervisor) idOf(ctx context.Context, topic string) (kadm.TopicID, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	found, err := kadm.NewClient(s.clients.member()).ListTopicsWithInternal(ctx, topic)
	if err != nil {
		return kadm.TopicID{}, err
	}
	return found[topic].ID, nil
}
