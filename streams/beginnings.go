package streams

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// beginnings are where the partitions of topics begin that have no commit, and which topics could
// not be listed: that takes no time from the others.
func (s *starter) beginnings(ctx context.Context, admin *kadm.Client, topics []string) (kadm.ListedOffsets, map[string]error, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout/2)
	defer cancel()
	if !s.begin.latest {
		return wholeTopics(admin.ListOffsetsAfterMilli(ctx, s.begin.after.UnixMilli(), topics...))
	}
	listed, unlisted, err := wholeTopics(admin.ListEndOffsets(ctx, topics...))
	late := slices.DeleteFunc(slices.Sorted(maps.Keys(listed)), func(topic string) bool { return !s.late.has(topic, s.cfg.Pattern) })
	if err != nil || len(late) == 0 {
		return listed, unlisted, err
	}
	starts, more, err := wholeTopics(admin.ListStartOffsets(ctx, late...))
	maps.Copy(unlisted, more)
	for _, topic := range late {
		delete(listed, topic)
	}
	maps.Copy(listed, starts)
	return listed, unlisted, err
}

func cannotBegin(topic string, why error) error {
	return fmt.Errorf("list where topic %s begins: %w", topic, why)
}

// wholeTopics takes out of a list the topics that are not there as a whole, and says why: a
// partition has no leader, for instance, or its leader does not answer.
func wholeTopics(listed kadm.ListedOffsets, err error) (kadm.ListedOffsets, map[string]error, error) {
	broken := map[string]error{}
	listed.Each(func(o kadm.ListedOffset) {
		if o.Err != nil {
			broken[o.Topic] = fmt.Errorf("partition %d: %w", o.Partition, o.Err)
		}
	})
	var failed *kadm.ShardErrors
	if errors.As(err, &failed) {
		for _, e := range failed.Errs {
			req, ok := e.Req.(*kmsg.ListOffsetsRequest)
			if !ok {
				return nil, nil, err
			}
			for _, t := range req.Topics {
				broken[t.Topic] = e.Err
			}
		}
		err = nil
	}
	maps.DeleteFunc(listed, func(topic string, _ map[int32]kadm.ListedOffset) bool { return broken[topic] != nil })
	return listed, broken, err
}
