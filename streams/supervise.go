package streams

import (
	"context"
	"fmt"
	"regexp"
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

// supervise looks after what polling does not tell: it is silent about a wrong password, an
// unreachable broker, a missing topic.
func (r *Reader) supervise(ctx context.Context) {
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	r.look(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.heal.asked:
		case <-tick.C:
			r.forgetIdle(ctx, time.Now())
			r.wake()
			r.status.age(time.Now())
			if r.status.wantsLook() {
				r.look(ctx)
			}
		}
		for _, topic := range r.heal.due(time.Now()) {
			if ctx.Err() != nil {
				return
			}
			if r.healTopic(ctx, topic) {
				r.heal.done(topic, time.Now())
			}
		}
	}
}

// look asks the cluster how it is, and where the logs end.
func (r *Reader) look(ctx context.Context) {
	limit, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	topics, err := r.reach(limit)
	if ctx.Err() != nil {
		return
	}
	r.status.reached(err, topics)
	if err == nil {
		r.seeEnds(limit)
	}
}

// reach returns why topics cannot be read, by their name, or why nothing can.
func (r *Reader) reach(ctx context.Context) (map[string]error, error) {
	if err := r.client.Ping(ctx); err != nil {
		if e := r.status.explain(topicPartition{}, err); e.Error() != err.Error() {
			return nil, e
		}
		return nil, fmt.Errorf("kafka cannot be reached, see %s: %w", r.cfg.Setting("kafka.brokers"), err)
	}
	admin := kadm.NewClient(r.client)
	if r.cfg.Pattern != "" {
		return r.matching(ctx, admin)
	}
	found, err := admin.ListTopicsWithInternal(ctx, r.cfg.Topics...)
	if err != nil {
		return nil, fmt.Errorf("ask kafka for the topics: %w", err)
	}
	errs := map[string]error{}
	for _, topic := range r.cfg.Topics {
		t, ok := found[topic]
		if err := t.Err; !ok || err != nil {
			if err == nil {
				err = kerr.UnknownTopicOrPartition
			}
			errs[topic] = r.status.explain(topicPartition{topic, -1}, err)
		}
	}
	return errs, nil
}

// Matches says whether there is a topic whose whole name matches a pattern.
func Matches(ctx context.Context, admin *kadm.Client, pattern string) (bool, error) {
	found, err := admin.ListTopics(ctx)
	if err != nil {
		return false, fmt.Errorf("ask kafka for the topics: %w", err)
	}
	whole, err := regexp.Compile(Config{Pattern: pattern}.wholeName())
	if err != nil {
		return false, err
	}
	for topic := range found {
		if whole.MatchString(topic) {
			return true, nil
		}
	}
	return false, nil
}

// matching tells that a pattern matches nothing, which a client does not.
func (r *Reader) matching(ctx context.Context, admin *kadm.Client) (map[string]error, error) {
	if len(r.parts.all()) > 0 {
		return nil, nil // it is given partitions, so there are topics
	}
	found, err := Matches(ctx, admin, r.cfg.Pattern)
	if found || err != nil {
		return nil, err
	}
	return map[string]error{r.cfg.Pattern: r.status.noMatch(r.cfg.Pattern)}, nil
}

// seeEnds brings the lag up to date while nothing is read. What cannot be had now is had later.
func (r *Reader) seeEnds(ctx context.Context) {
	parts := r.parts.all()
	seen := map[string]bool{}
	var topics []string
	for _, p := range parts {
		if !seen[p.topic] {
			seen[p.topic] = true
			topics = append(topics, p.topic)
		}
	}
	if len(topics) == 0 {
		return
	}
	list := kadm.NewClient(r.client).ListCommittedOffsets
	if r.cfg.ReadUncommitted {
		list = kadm.NewClient(r.client).ListEndOffsets
	}
	ends, _ := list(ctx, topics...)
	for _, p := range parts {
		if end, ok := ends.Lookup(p.topic, p.partition); ok && end.Err == nil {
			p.sawEnd(end.Offset)
		}
	}
}
