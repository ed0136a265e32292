package streams

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

const (
	lookInterval = 2 * time.Second
	lookTimeout  = 5 * time.Second
	// idleAfter is how long nothing may have been read, nor asked and answered well, until the
	// cluster is asked how it is.
	idleAfter = 10 * time.Second
)

// supervisor asks the cluster what polling does not tell, and mends what clients do not: it looks
// whether there is a cluster and a topic, where the logs end and who is in the group, and has
// topics found anew.
type supervisor struct {
	*common
	parts      *assignments
	clients    *clients
	rebalances *rebalancer
	status     *status
	heal       *healer
	late       *latecomers
	paused     func() bool
	// empty are the partitions whose log had nothing left to read at the last look, and where they
	// were.
	empty  map[*partition]int64
	unread *unread
}

// supervise looks after what polling does not tell: it is silent about a wrong password, an
// unreachable broker, a missing topic.
func (s *supervisor) supervise(ctx context.Context) {
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	s.look(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.heal.asked:
		case <-tick.C:
			s.clients.forgetIdle(ctx, time.Now())
			s.status.age(time.Now())
			if s.status.wantsLook() {
				s.look(ctx)
			}
			s.seeEndsAfterDeaths(ctx)
			s.tellUnread(ctx)
		}
		for _, topic := range s.heal.due(time.Now()) {
			if ctx.Err() != nil {
				return
			}
			if s.healTopic(ctx, topic) {
				s.heal.done(topic, time.Now())
			}
		}
	}
}

// look asks the cluster how it is, and where the logs end.
func (s *supervisor) look(ctx context.Context) {
	limit, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	topics, err := s.reach(limit)
	if ctx.Err() != nil {
		return
	}
	s.status.reached(err, topics)
	if err == nil {
		parts := s.parts.all()
		s.seeEmpty(limit, parts, s.seeEnds(limit, parts))
	}
}

// seeEndsAfterDeaths looks where logs end of which nothing came since owners died: their next
// record is not to blame, and no record may come to tell so for long.
func (s *supervisor) seeEndsAfterDeaths(ctx context.Context) {
	parts := slices.DeleteFunc(s.parts.all(), func(p *partition) bool { return !p.wantsEnd() })
	if len(parts) > 0 {
		limit, cancel := context.WithTimeout(ctx, lookTimeout)
		defer cancel()
		s.seeEnds(limit, parts)
	}
}

// reach returns why topics cannot be read, by their name, or why nothing can.
func (s *supervisor) reach(ctx context.Context) (map[string]error, error) {
	if err := Ping(ctx, s.clients.member()); err != nil {
		if e := s.status.explain(topicPartition{}, err); e.Error() != err.Error() {
			return nil, e
		}
		return nil, fmt.Errorf("kafka cannot be reached, see %s: %w", s.cfg.Setting("kafka.brokers"), err)
	}
	admin := kadm.NewClient(s.clients.member())
	if s.cfg.Pattern != "" {
		return s.noMatch(ctx, admin)
	}
	found, err := admin.ListTopicsWithInternal(ctx, s.cfg.Topics...)
	if err != nil {
		return nil, fmt.Errorf("ask kafka for the topics: %w", err)
	}
	errs := map[string]error{}
	for _, topic := range s.cfg.Topics {
		t, ok := found[topic]
		s.late.saw(topic, t.ID)
		if err := t.Err; !ok || err != nil {
			if err == nil {
				err = kerr.UnknownTopicOrPartition
			}
			if errors.Is(err, kerr.UnknownTopicOrPartition) {
				s.late.missed(topic)
			}
			errs[topic] = s.status.explain(topicPartition{topic, -1}, err)
		}
	}
	return errs, nil
}

// Matches says whether there is a topic whose whole name matches a pattern.
func Matches(ctx context.Context, admin *kadm.Client, pattern string) (bool, error) {
	topics, err := matching(ctx, admin, pattern)
	return len(topics) > 0, err
}

// matching are the topics whose whole names match a pattern.
func matching(ctx context.Context, admin *kadm.Client, pattern string) (topics []string, err error) {
	found, err := admin.ListTopics(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask kafka for the topics: %w", err)
	}
	whole, err := regexp.Compile(Config{Pattern: pattern}.wholeName())
	if err != nil {
		return nil, err
	}
	for topic := range found {
		if whole.MatchString(topic) {
			topics = append(topics, topic)
		}
	}
	return topics, nil
}

// noMatch tells that a pattern matches nothing, which a client does not.
func (s *supervisor) noMatch(ctx context.Context, admin *kadm.Client) (map[string]error, error) {
	if len(s.parts.all()) > 0 {
		return nil, nil // it is given partitions, so there are topics
	}
	found, err := Matches(ctx, admin, s.cfg.Pattern)
	if found || err != nil {
		return nil, err
	}
	s.late.missed(s.cfg.Pattern)
	return map[string]error{s.cfg.Pattern: s.status.noMatch(s.cfg.Pattern)}, nil
}

// seeEnds notes where the logs end: the lag is brought up to date by it while nothing is read. What
// cannot be had now is had later.
func (s *supervisor) seeEnds(ctx context.Context, parts []*partition) kadm.ListedOffsets {
	seen := map[string]bool{}
	var topics []string
	for _, p := range parts {
		if !seen[p.topic] {
			seen[p.topic] = true
			topics = append(topics, p.topic)
		}
	}
	if len(topics) == 0 {
		return nil
	}
	list := kadm.NewClient(s.clients.member()).ListCommittedOffsets
	if s.cfg.ReadUncommitted {
		list = kadm.NewClient(s.clients.member()).ListEndOffsets
	}
	ends, _ := list(ctx, topics...)
	for _, p := range parts {
		if end := offsetIn(ends, p); end >= 0 {
			p.sawEnd(end)
		}
	}
	return ends
}

// seeEmpty counts as lost what Kafka deleted of logs in which nothing is left to read: no record
// comes that would tell of it, and the lag would stay. It is believed the second time, since what
// was fetched before may be on its way to us.
func (s *supervisor) seeEmpty(ctx context.Context, parts []*partition, ends kadm.ListedOffsets) {
	before := s.empty
	s.empty = map[*partition]int64{}
	behind := map[string]bool{}
	for _, p := range parts {
		if p.position() < offsetIn(ends, p) {
			behind[p.topic] = true
		}
	}
	buffered := func(f *fetcher) bool { return f.client.BufferedFetchRecords() > 0 }
	if len(behind) == 0 || s.paused() || slices.ContainsFunc(s.clients.all, buffered) {
		return
	}
	starts, _ := kadm.NewClient(s.clients.member()).ListStartOffsets(ctx, slices.Collect(maps.Keys(behind))...)
	for _, p := range parts {
		at, end := p.position(), offsetIn(ends, p)
		if at < 0 || at >= end || offsetIn(starts, p) != end {
			continue
		}
		s.empty[p] = at
		if was, again := before[p]; again && was == at {
			if gone := p.emptied(at, end); gone > 0 {
				s.lost(p.topicPartition, at, gone)
			}
		}
	}
}

// offsetIn is the offset of the partition in a list; -1: it is not known.
func offsetIn(list kadm.ListedOffsets, p *partition) int64 {
	if of, ok := list.Lookup(p.topic, p.partition); ok && of.Err == nil {
		return of.Offset
	}
	return -1
}
