package streams

import (
	"context"
	"regexp"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// unreadInterval is how far apart looks at topics are that the group has read and we do not.
const unreadInterval = time.Minute

// unread finds topics that the group has commits of and that are read no more, as those that were
// taken out of TOPICS: their lag is that of nobody.
type unread struct {
	interval time.Duration
	looked   time.Time
	// at are the commits behind which records waited at the last look.
	at   map[topicPartition]int64
	told map[string]bool
}

func newUnread() *unread { return &unread{interval: unreadInterval, told: map[string]bool{}} }

// due says whether it is time for a look.
func (u *unread) due(now time.Time) bool {
	if now.Sub(u.looked) < u.interval {
		return false
	}
	u.looked = now
	return true
}

// behind is a commit of a partition, and where its log ends.
type behind struct{ at, end int64 }

// see enters a look at commits behind which records wait, and returns how many wait where one has
// not moved since the last look, by topics that were not told of: while another process reads a
// topic its commits move.
func (u *unread) see(lags map[topicPartition]behind) map[string]int64 {
	at, waiting := map[topicPartition]int64{}, map[string]int64{}
	for tp, lag := range lags {
		at[tp] = lag.at
		if was, known := u.at[tp]; known && was == lag.at && !u.told[tp.topic] {
			waiting[tp.topic] += lag.end - lag.at
		}
	}
	for topic := range waiting {
		u.told[topic] = true
	}
	u.at = at
	return waiting
}

// tellUnread looks for such topics, and says what waits in them, once.
func (s *supervisor) tellUnread(ctx context.Context) {
	if joined, _ := s.status.read(); !joined || !s.unread.due(time.Now()) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	admin := kadm.NewClient(s.clients.member())
	commits, err := admin.FetchOffsets(ctx, s.cfg.Group.ID)
	if err != nil {
		return // at the next look
	}
	reads := s.reads()
	commits.DeleteFunc(func(o kadm.OffsetResponse) bool { return o.Err != nil || reads(o.Topic) })
	if len(commits) == 0 {
		return
	}
	ends, err := admin.ListCommittedOffsets(ctx, commits.Partitions().Topics()...)
	if err != nil {
		return
	}
	lags := map[topicPartition]behind{}
	commits.Each(func(o kadm.OffsetResponse) {
		if end, ok := ends.Lookup(o.Topic, o.Partition); ok && end.Err == nil && end.Offset > o.At {
			lags[topicPartition{o.Topic, o.Partition}] = behind{o.At, end.Offset}
		}
	})
	setting := s.status.own("topics")
	if s.cfg.Pattern != "" {
		setting = s.status.own("topic_pattern")
	}
	for topic, records := range s.unread.see(lags) {
		s.log.Warn("the group has read a topic that this process does not read, and records wait in it: where no other process reads it either, nobody will handle them",
			"topic", topic, "records", records, "setting", setting)
	}
}

// reads says of a topic whether it is one of ours.
func (s *supervisor) reads() func(topic string) bool {
	if s.cfg.Pattern == "" {
		return func(topic string) bool { return slices.Contains(s.cfg.Topics, topic) }
	}
	return regexp.MustCompile(s.cfg.wholeName()).MatchString // New has compiled it
}
