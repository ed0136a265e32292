package streams

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/task"
)

// leaderless has the fake broker list partition 1 of a topic, which is empty, only once allowed is
// closed. asked counts.
func (w *world) leaderless(topic string, allowed <-chan struct{}, asked *atomic.Int64) {
	w.fake.ControlKey(int16(kmsg.ListOffsets), func(r kmsg.Request) (kmsg.Response, error, bool) {
		w.fake.KeepControl()
		select {
		case <-allowed:
			return nil, nil, false
		default:
		}
		req, refuses := r.(*kmsg.ListOffsetsRequest), false
		resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
		for _, t := range req.Topics {
			answer := kmsg.NewListOffsetsResponseTopic()
			answer.Topic = t.Topic
			for _, p := range t.Partitions {
				part := kmsg.NewListOffsetsResponseTopicPartition()
				part.Partition, part.Offset = p.Partition, 0
				if t.Topic == topic && p.Partition == 1 {
					part.ErrorCode, refuses = kerr.LeaderNotAvailable.Code, true
				}
				answer.Partitions = append(answer.Partitions, part)
			}
			resp.Topics = append(resp.Topics, answer)
		}
		if refuses {
			asked.Add(1)
		}
		return resp, nil, refuses
	})
}

// generation is that of the group.
func (*world) generation(r *running) int32 {
	_, generation := r.clients.member().GroupMetadata()
	return generation
}

// slowly handles a message, and counts where it is lost meanwhile.
func slowly(ctx context.Context, m *stepwell.Message, handled *journal, lost *atomic.Int64) task.Outcome {
	if task.Sleep(ctx, 20*time.Millisecond) {
		handled.note(m)
		return task.Settled
	}
	if errors.Is(context.Cause(ctx), ErrLost) {
		lost.Add(1)
	}
	return task.Abandoned
}

func TestATopicThatCannotBeListedYetHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	for name, later := range map[string]bool{"one of a list": false, "one that a pattern matches later": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := fakeWorld(t, 1)
			other := w.topic + "-other"
			w.commitWith(0, 0, "")
			w.produce(0, 10)
			var asked, lost atomic.Int64
			allowed := make(chan struct{})
			w.leaderless(other, allowed, &asked)
			cfg := w.config()
			cfg.Start, cfg.Topics, cfg.Group.HeartbeatInterval = "latest", []string{w.topic, other}, 200*time.Millisecond
			cfg.Kafka.Options = append(cfg.Kafka.Options, kgo.MetadataMaxAge(time.Second))
			if later {
				cfg.Topics, cfg.Pattern = nil, w.topic+".*"
			} else {
				w.create(other, 2)
			}
			handled := newJournal() // 0: of the topic that was there; 1 and 2: of the other's partitions
			reader, err := New(cfg, func(ctx context.Context, m *stepwell.Message, _ task.Ticket) task.Outcome {
				if m.Origin.Topic == other {
					m.Origin.Partition++
				}
				return slowly(ctx, m, handled, &lost)
			})
			if err != nil {
				t.Fatal(err)
			}
			reader.heal.interval = time.Second
			r := w.start(reader)
			eventually(t, "ten calls", func() bool { return len(handled.of(0)) == 10 })
			w.produce(0, 500)
			if later {
				w.create(other, 2)
			}
			eventually(t, "the status tells", func() bool {
				return strings.Contains(r.Status().Err, "list where topic "+other+" begins: partition 1: LEADER_NOT_AVAILABLE")
			})
			more, before := asked.Load()+2, w.generation(r)
			eventually(t, "it is asked for again", func() bool { return asked.Load() >= more })
			if now := w.generation(r); now != before {
				t.Errorf("to ask for it took the group from generation %d to %d", before, now)
			}
			w.send(&kgo.Record{Topic: other})
			eventually(t, "the topic that was there is handled", func() bool { return len(handled.of(0)) == 510 })
			if n := lost.Load(); n > 0 || len(handled.of(1)) > 0 {
				t.Errorf("%d calls were cancelled; of the other %v", n, handled.of(1))
			}
			close(allowed)
			eventually(t, "all is well", func() bool { return r.Status().Err == "" && r.Status().Partitions == 3 })
			eventually(t, "the other is read, where it came later from its start", func() bool {
				w.send(&kgo.Record{Topic: other}, &kgo.Record{Topic: other, Partition: 1})
				got := handled.of(1)
				return len(got) > 0 && len(handled.of(2)) > 0 && (got[0] == 0) == later
			})
		})
	}
}

func TestAReaderWhoseOnlyTopicCannotBeListedIsNotReadyAndBeginsOnceItCan(t *testing.T) {
	t.Parallel()
	w, j := fakeWorld(t, 2), newJournal()
	var asked atomic.Int64
	allowed := make(chan struct{})
	w.leaderless(w.topic, allowed, &asked)
	cfg := w.config()
	cfg.Start = "latest"
	r := w.run(cfg, j.settleAll)
	eventually(t, "it is asked again and again", func() bool { return asked.Load() > 3 })
	if r.Status().Joined {
		t.Error("it counts as joined")
	}
	close(allowed)
	within(t, 20*time.Second, "it has joined", func() bool { return r.Status().Joined })
	w.produce(1, 1)
	eventually(t, "what came then is handled", func() bool { return j.count() == 1 })
}

func TestWhereOneBrokerDoesNotListAPartitionItsTopicIsLeftOutAndNoOther(t *testing.T) {
	t.Parallel()
	list := func() kadm.ListedOffsets {
		return kadm.ListedOffsets{
			"whole":  {0: {Topic: "whole"}, 1: {Topic: "whole", Partition: 1}},
			"broken": {0: {Topic: "broken"}},
			"gone":   {-1: {Topic: "gone", Partition: -1, Err: kerr.UnknownTopicOrPartition}},
		}
	}
	req := kmsg.NewPtrListOffsetsRequest()
	req.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: "broken"}}
	listed, unlisted, err := wholeTopics(list(), &kadm.ShardErrors{Errs: []kadm.ShardError{{Req: req, Err: kerr.LeaderNotAvailable}}})
	if names := slices.Sorted(maps.Keys(unlisted)); err != nil || len(listed) != 1 || len(listed["whole"]) != 2 || !slices.Equal(names, []string{"broken", "gone"}) {
		t.Errorf("listed %v, not listed %v, %v", listed, unlisted, err)
	}
	for _, why := range []error{kerr.ClusterAuthorizationFailed, &kadm.ShardErrors{Errs: []kadm.ShardError{{Req: kmsg.NewPtrMetadataRequest(), Err: kerr.NetworkException}}}} {
		if _, _, err := wholeTopics(list(), why); !errors.Is(err, why) {
			t.Errorf("of %v it says %v", why, err)
		}
	}
}

// Left out, it would count as one that came later, and be read from its start.
func TestTheFirstTopicsOfAPatternBeginTogetherAlsoWhereOneCannotBeListedYet(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, 1)
	other := w.topic + "-other"
	w.create(other, 2)
	w.produce(0, 5)
	w.send(&kgo.Record{Topic: other})
	var asked, handled atomic.Int64
	allowed := make(chan struct{})
	w.leaderless(other, allowed, &asked)
	cfg := w.config()
	cfg.Start, cfg.Topics, cfg.Pattern = "latest", nil, w.topic+".*"
	r := w.run(cfg, func(context.Context, *stepwell.Message, task.Ticket) task.Outcome {
		handled.Add(1)
		return task.Settled
	})
	eventually(t, "it is asked again and again", func() bool { return asked.Load() > 3 })
	if r.Status().Joined || len(w.committed()) > 0 {
		t.Errorf("joined: %v, committed: %v", r.Status().Joined, w.committed())
	}
	close(allowed)
	within(t, 20*time.Second, "it has joined", func() bool { return r.Status().Joined && r.Status().Partitions == 3 })
	w.produce(0, 1)
	w.send(&kgo.Record{Topic: other})
	eventually(t, "what came then is handled", func() bool { return handled.Load() == 2 })
}
