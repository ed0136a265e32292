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

func TestPartitionsAreDividedAmongFetchersByTopicFirst(t *testing.T) {
	t.Parallel()
	r, _ := lone(t, settleAll)
	fetchers := []*fetcher{newFetcher(true), newFetcher(false)}
	count := map[string][]int{}
	// The second of t goes to the second; then each has one of all, and the first comes first, until
	// it has more than the other.
	for _, tp := range []topicPartition{{"t", 0}, {"t", 1}, {"u", 0}, {"u", 1}, {"u", 2}, {"v", 0}} {
		p := r.parts.assign(tp, fetchers)
		count[tp.topic] = append(count[tp.topic], slices.Index(fetchers, p.fetcher))
	}
	for topic, want := range map[string][]int{"t": {0, 1}, "u": {0, 1, 0}, "v": {1}} {
		if !slices.Equal(count[topic], want) {
			t.Errorf("the partitions of %s are read by %v, want %v", topic, count[topic], want)
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
