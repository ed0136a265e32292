package streams

import (
	"context"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/task"
)

func settleAll(context.Context, *stepwell.Message, task.Ticket) task.Outcome { return task.Settled }

func TestWhoReadsAPartitionReadsTheFewestOfItsTopicThenOfAll(t *testing.T) {
	t.Parallel()
	r, _ := lone(t, settleAll)
	first, second := newFetcher(true), newFetcher(false)
	both := []*fetcher{first, second}
	for i, step := range []struct {
		of   topicPartition
		from []*fetcher
		want *fetcher
	}{
		{topicPartition{"t", 0}, both, first},
		{topicPartition{"u", 0}, []*fetcher{second}, second},
		{topicPartition{"u", 1}, []*fetcher{second}, second},
		{topicPartition{"t", 1}, both, second}, // which has more of all, and none of t
		{topicPartition{"t", 2}, both, first},  // each has one of t
	} {
		if p := r.parts.assign(step.of, step.from); p.fetcher != step.want {
			t.Errorf("step %d: the other reads %v", i, step.of)
		}
	}
}

func TestAfterAStopBeganNothingBecomesOurs(t *testing.T) {
	t.Parallel()
	r, tp := lone(t, settleAll)
	before := r.parts.assign(tp, r.clients.all)
	r.parts.close()
	if p := r.parts.assign(topicPartition{"t", 1}, r.clients.all); p != nil || !r.parts.isOurs(before) || len(r.parts.all()) != 1 {
		t.Errorf("%d are ours, one of them %v", len(r.parts.all()), p)
	}
}

// A topic that was made anew is told by its id. What nothing was read of may be of either.
func TestPartitionsOfATopicAreToldFromThoseOfOneThatWasThereBeforeIt(t *testing.T) {
	t.Parallel()
	r, _ := lone(t, settleAll)
	now, before := kadm.TopicID{1}, kadm.TopicID{2}
	for partition, id := range []kadm.TopicID{now, before, {}} {
		p := r.parts.assign(topicPartition{"t", int32(partition)}, r.clients.all)
		if id != (kadm.TopicID{}) {
			p.append(&kgo.FetchPartition{}, id, 0)
		}
	}
	r.parts.assign(topicPartition{"u", 0}, r.clients.all).append(&kgo.FetchPartition{}, now, 0)
	ids := func(parts []*partition) (all []int32) {
		for _, p := range parts {
			if p.topic != "t" {
				t.Errorf("%v is of another topic", p.topicPartition)
			}
			all = append(all, p.partition)
		}
		slices.Sort(all)
		return all
	}
	if same, others := r.parts.ofTopic("t", now); !slices.Equal(ids(same), []int32{0}) || !slices.Equal(ids(others), []int32{1, 2}) {
		t.Errorf("partitions %v are of the topic, %v may be of another", ids(same), ids(others))
	}
	if same, others := r.parts.ofTopic("t", kadm.TopicID{}); len(same) != 0 || len(others) != 3 {
		t.Errorf("of a topic without an id %d are known to be of it, %d not", len(same), len(others))
	}
}
