package streams

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stepwell/stepwell/internal/ledger"
)

// startAt is where a group without commits begins. The zero time and latest false: at the earliest
// record.
type startAt struct {
	latest bool
	after  time.Time
}

func parseStart(s string) (startAt, error) {
	switch s {
	case "", "earliest":
		return startAt{}, nil
	case "latest":
		return startAt{latest: true}, nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return startAt{}, fmt.Errorf("start %q: want earliest, latest or a time as 2006-01-02T15:04:05Z", s)
	}
	return startAt{after: t}, nil
}

func (s startAt) earliest() bool { return !s.latest && s.after.IsZero() }

// starter finds where the group begins with partitions that are given to us: at its commits, or
// where the stream is to start, once that is committed.
type starter struct {
	*common
	begin   startAt
	gate    *gate
	parts   *assignments
	clients *clients
	commits *committer
	status  *status
	heal    *healer
	late    *latecomers
}

// startTimeout bounds the questions that are asked before the first fetch.
const startTimeout = 20 * time.Second

// adjust is asked where to begin with newly assigned partitions, after their commits were read. A
// negative offset means that there is none.
//
// A group that begins at the end, or at a time, is given commits there for all partitions of the
// topic before the first record is read: else a restart before the first commit would begin at a
// later end, and skip what came between. A partition without a commit in a topic that has others is
// new, and begins at its start; so does, in a group that begins at the end, each of a topic that
// came after we did.
func (s *starter) adjust(ctx context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	var first map[topicPartition]ledger.Position
	if missing := withoutCommit(offsets); len(missing) > 0 && !s.begin.earliest() {
		var unlisted map[string]error
		var err error
		if first, unlisted, err = s.firstStart(ctx, slices.Collect(maps.Keys(missing))); err == nil {
			err = s.leaveOut(unlisted, offsets)
		}
		if err != nil {
			return nil, err
		}
	}
	unsure := map[string][]int32{}
	for topic, parts := range offsets {
		s.status.begins(topic, nil)
		for id, o := range parts {
			tp := topicPartition{topic, id}
			at := ledger.At(o.EpochOffset().Offset, o.EpochOffset().Epoch)
			if at.Offset >= 0 && at.Epoch < 0 {
				unsure[topic] = append(unsure[topic], id)
			}
			if f, ok := first[tp]; ok && at.Offset < 0 {
				at = f
				parts[id] = kgo.NewOffset().At(at.Offset)
			}
			p := s.parts.lookup(tp)
			if p == nil {
				continue
			}
			p.placed.Store(true)
			if at.Offset >= 0 {
				_, fresh := first[tp]
				p.begin(at, fresh)
			}
		}
	}
	s.gate.change(func() {
		s.clients.keep(unsure)
		s.clients.readFrom(offsets)
	})
	s.status.joined()
	for topic, n := range withoutCommit(offsets) {
		s.log.Info("the group has no commits of partitions and reads them from their first record", "topic", topic, "partitions", n)
	}
	return offsets, nil
}

// leaveOut has topics wait of which it is not known where they begin, until they are looked for
// again: one partition without a leader is enough, and all else that we read goes on. Where there
// is nothing else the error is that of the assignment, which the client asks for again at once.
func (s *starter) leaveOut(topics map[string]error, offsets map[string]map[int32]kgo.Offset) (err error) {
	waits := map[string]error{}
	for topic, why := range topics {
		if len(offsets[topic]) > 0 {
			err = cannotBegin(topic, why)
			waits[topic] = err
			delete(offsets, topic)
		}
	}
	isPlaced := func(p *partition) bool { return p.placed.Load() }
	if len(offsets) == 0 && !slices.ContainsFunc(s.parts.all(), isPlaced) {
		return err
	}
	for topic, err := range waits {
		s.status.begins(topic, err)
		s.heal.ask(topic)
	}
	return nil
}

// withoutCommit is how many partitions have no offset, by topic.
func withoutCommit(offsets map[string]map[int32]kgo.Offset) map[string]int {
	n := map[string]int{}
	for topic, parts := range offsets {
		for _, o := range parts {
			if o.EpochOffset().Offset < 0 {
				n[topic]++
			}
		}
	}
	return n
}

// onFetched reads what the commits say of the offsets beyond them. It comes before adjust.
func (s *starter) onFetched(_ context.Context, _ *kgo.Client, resp *kmsg.OffsetFetchResponse) error {
	note := func(topic string, partition int32, offset int64, metadata *string) {
		if p := s.parts.lookup(topicPartition{topic, partition}); p != nil && metadata != nil {
			p.restored(offset, *metadata)
		}
	}
	for _, t := range resp.Topics { // of brokers before 3.0
		for _, p := range t.Partitions {
			note(t.Topic, p.Partition, p.Offset, p.Metadata)
		}
	}
	for _, g := range resp.Groups {
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				note(t.Topic, p.Partition, p.Offset, p.Metadata)
			}
		}
	}
	return nil
}

// firstStart returns where partitions without commits begin, if not at their start, once that is
// committed, and which topics could not be listed. With a pattern all topics begin together: one
// that has no commits then while others have some counts as new.
func (s *starter) firstStart(ctx context.Context, missing []string) (first map[topicPartition]ledger.Position, unlisted map[string]error, err error) {
	admin := kadm.NewClient(s.clients.member())
	commits, err := s.commitsOfGroup(ctx, admin)
	if err != nil {
		return nil, nil, err
	}
	topics, err := s.freshTopics(ctx, admin, commits, missing)
	if err != nil {
		return nil, nil, err
	}
	first = make(map[topicPartition]ledger.Position)
	if len(topics) > 0 {
		together := s.cfg.Pattern != "" && len(commits) == 0
		if unlisted, err = s.commitStart(ctx, admin, topics, together, first); err != nil {
			return nil, nil, err
		}
	}
	for topic, parts := range commits { // of another member, since we asked
		for id, o := range parts {
			first[topicPartition{topic, id}] = ledger.At(o.At, o.LeaderEpoch)
		}
	}
	return first, unlisted, nil
}

func (s *starter) commitsOfGroup(ctx context.Context, admin *kadm.Client) (kadm.OffsetResponses, error) {
	commits, err := admin.FetchOffsets(ctx, s.cfg.Group.ID)
	if err == nil {
		err = commits.Error()
	}
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return nil, fmt.Errorf("read the commits of group %s: %w", s.cfg.Group.ID, err)
	}
	return commits, nil
}

// freshTopics are those that the group has never read. With a pattern a topic that turns up while
// the group has commits of others is a new one, which begins at its start. In a group that begins
// at the end that is committed, too: a process with a list of topics, which may be the next owner,
// would take it for one that was there before.
func (s *starter) freshTopics(ctx context.Context, admin *kadm.Client, commits kadm.OffsetResponses, missing []string) ([]string, error) {
	fresh := slices.DeleteFunc(missing, func(topic string) bool { return len(commits[topic]) > 0 })
	switch {
	case s.cfg.Pattern == "":
		return fresh, nil
	case len(commits) == 0:
		return matching(ctx, admin, s.cfg.Pattern)
	case !s.begin.latest:
		return nil, nil
	}
	for _, topic := range fresh {
		s.late.missed(topic)
	}
	return fresh, nil
}

// commitStart finds the start of all partitions of the topics and commits it where there is no
// commit yet, but for topics that cannot be listed, unless all are to begin together. Another
// member may do the same; it may even overwrite ours with a later end, which is why partition.begin
// has ours committed again.
func (s *starter) commitStart(ctx context.Context, admin *kadm.Client, topics []string, together bool, first map[topicPartition]ledger.Position) (unlisted map[string]error, err error) {
	listed, unlisted, err := s.beginnings(ctx, admin, topics)
	for topic, why := range unlisted {
		if together {
			err = fmt.Errorf("topic %s: %w", topic, why)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("list where to begin: %w", err)
	}
	commits, err := s.commitsOfGroup(ctx, admin)
	if err != nil {
		return nil, err
	}
	offsets := make(map[string]map[int32]kgo.EpochOffset)
	missing := 0
	listed.Each(func(o kadm.ListedOffset) {
		tp, at := topicPartition{o.Topic, o.Partition}, ledger.At(o.Offset, -1)
		if c, ok := commits.Lookup(o.Topic, o.Partition); ok {
			first[tp] = ledger.At(c.At, c.LeaderEpoch)
			return
		}
		first[tp] = at
		put(offsets, tp, at)
		missing++
	})
	if missing == 0 {
		return unlisted, nil
	}
	err = s.commits.sendByClient(ctx, offsets, func(topicPartition) (string, bool) { return "", true }, func(tp topicPartition, err error) {
		switch {
		case err == nil:
			missing--
		case errors.Is(err, kerr.UnknownTopicID): // of a topic that was made anew and that nobody here reads
			s.heal.ask(tp.topic)
		}
	})
	if err == nil && missing > 0 {
		err = fmt.Errorf("%d partitions were not committed", missing)
	}
	if err != nil {
		return nil, fmt.Errorf("commit where to begin: %w", err)
	}
	s.tellStart(ctx, admin, offsets)
	return unlisted, nil
}

// tellStart logs how many records a group without commits leaves out. The brokers forget the
// commits of a group that has had no members for a week: it begins as a new one does.
func (s *starter) tellStart(ctx context.Context, admin *kadm.Client, at map[string]map[int32]kgo.EpochOffset) {
	firsts, _ := admin.ListStartOffsets(ctx, slices.Collect(maps.Keys(at))...) // what cannot be had is not counted
	for topic, parts := range at {
		if s.begin.latest && s.late.has(topic, s.cfg.Pattern) {
			s.log.Info("a topic was made after the group began and is read from its first record", "topic", topic, "partitions", len(parts))
			continue
		}
		level, left := slog.LevelInfo, int64(0)
		for id, o := range parts {
			if first, ok := firsts.Lookup(topic, id); ok && first.Err == nil {
				left += max(0, o.Offset-first.Offset)
			}
		}
		if left > 0 {
			level = slog.LevelWarn
		}
		s.log.Log(ctx, level, "the group has no commits and begins where the stream is to start: what came before is not read",
			"topic", topic, "start", s.cfg.Start, "partitions", len(parts), "records_left_out", left)
	}
}
