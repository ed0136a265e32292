package streams

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/task"
)

// refuseFetches makes the fake broker refuse fetches of a partition until the channel is closed.
// asked counts them.
func (w *world) refuseFetches(of int32, why *kerr.Error, allowed <-chan struct{}, asked *atomic.Int64) {
	w.fake.ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
		w.fake.KeepControl()
		select {
		case <-allowed:
			return nil, nil, false
		default:
		}
		req := r.(*kmsg.FetchRequest)
		for _, t := range req.Topics {
			for _, p := range t.Partitions {
				if p.Partition == of {
					asked.Add(1)
					only := *req
					only.Topics = []kmsg.FetchRequestTopic{t}
					only.Topics[0].Partitions = []kmsg.FetchRequestTopicPartition{p}
					return refusal(&only, why), nil, true
				}
			}
		}
		return nil, nil, false
	})
}

// hung is a handle whose calls of partition 0 last until release is closed, and which counts those
// that are cancelled.
type hung struct {
	*journal
	release    chan struct{}
	begun, cut atomic.Int64
}

func newHung() *hung { return &hung{journal: newJournal(), release: make(chan struct{})} }

func (h *hung) handle(ctx context.Context, m *stepwell.Message, tk task.Ticket) task.Outcome {
	if m.Origin.Partition == 0 {
		h.begun.Add(1)
		select {
		case <-h.release:
		case <-ctx.Done():
			h.cut.Add(1)
			return task.Abandoned
		}
	}
	return h.settleAll(ctx, m, tk)
}

func TestAPartitionWhoseFetchesAreRefusedDisturbsNoOtherAndGoesOnWhenTheyAreNot(t *testing.T) {
	t.Parallel()
	for name, members := range map[string]int{"one reader": 1, "two readers": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, h := fakeWorld(t, 2), newHung()
			w.produce(0, 1)
			w.produce(1, 5)
			var asked atomic.Int64
			allowed := make(chan struct{})
			w.refuseFetches(1, kerr.UnknownServerError, allowed, &asked)
			cfg := w.config()
			var all []*running
			for range members {
				reader, err := New(cfg, h.handle)
				if err != nil {
					t.Fatal(err)
				}
				reader.heal.interval = 100 * time.Millisecond
				all = append(all, w.start(reader))
				eventually(t, "it is a member", func() bool { return all[len(all)-1].Status().Partitions == 2/len(all) })
			}
			eventually(t, "the slow call", func() bool { return h.begun.Load() > 0 })
			began, before := h.begun.Load(), h.cut.Load() // the second member may have been given what the first had begun
			told := func() bool {
				for _, r := range all {
					if text := r.Status().Err; text != "" {
						t.Log(text)
						return true
					}
				}
				return false
			}
			eventually(t, "the status tells", told)
			more, from := asked.Load()+3, time.Now()
			eventually(t, "it is asked for again", func() bool { return asked.Load() >= more })
			if took := time.Since(from); took < 2*time.Second {
				t.Errorf("it was asked for three times within %v", took)
			}
			if h.begun.Load() != began || h.cut.Load() != before {
				t.Errorf("the slow call was begun %d times and cancelled %d times", h.begun.Load(), h.cut.Load())
			}
			close(allowed)
			within(t, 10*time.Second, "the refused partition goes on", func() bool { return len(h.of(1)) == 5 })
			close(h.release)
			eventually(t, "all is committed", func() bool { c := w.committed(); return c[0] == 1 && c[1] == 5 })
			if h.cut.Load() != before {
				t.Error("the slow call was cancelled")
			}
		})
	}
}

func TestATopicThatIsLookedForAgainThoughItIsTheSameLosesNoCallAndRepeatsNone(t *testing.T) {
	t.Parallel()
	each(t, 2, func(t *testing.T, w *world) { // one of the group's member, one of another fetcher
		h := newHung()
		w.produce(0, 3)
		w.produce(1, 3)
		reader, err := New(w.config(), h.handle)
		if err != nil {
			t.Fatal(err)
		}
		r := w.start(reader)
		eventually(t, "one call runs and the other partition is done", func() bool { return h.begun.Load() == 1 && w.committed()[1] == 3 })
		p := r.parts.lookup(topicPartition{w.topic, 0})
		r.heal.ask(w.topic)
		<-p.roster.Halted()
		close(h.release)
		eventually(t, "all is committed", func() bool { return w.committed()[0] == 3 })
		if r.parts.lookup(topicPartition{w.topic, 0}) == p {
			t.Error("nothing was looked for")
		}
		w.produce(0, 1)
		w.produce(1, 1)
		eventually(t, "it goes on", func() bool { c := w.committed(); return c[0] == 4 && c[1] == 4 })
		if h.cut.Load() != 0 || h.count() != 8 {
			t.Errorf("%d calls were cancelled, and %d were made for 8 records", h.cut.Load(), h.count())
		}
	})
}

func TestATopicThatIsLookedForAgainAndAgainCondemnsNoSlowMessage(t *testing.T) {
	t.Parallel()
	w, h := fakeWorld(t, 1), newHung()
	w.produce(0, 1)
	var condemned atomic.Int64
	cfg := w.config()
	cfg.Guard.CrashLimit, cfg.Group.RevokeTimeout = 1, 50*time.Millisecond
	cfg.Guard.Condemn = func(context.Context, *stepwell.Message, task.Ticket) task.Outcome {
		condemned.Add(1)
		return task.Settled
	}
	var all []*running
	for range 2 {
		reader, err := New(cfg, h.handle)
		if err != nil {
			t.Fatal(err)
		}
		reader.heal.interval = 0
		all = append(all, w.start(reader))
	}
	for i := range int64(6) { // it may change hands each time
		eventually(t, "the call", func() bool { return h.begun.Load() == i+1 || condemned.Load() > 0 })
		for _, r := range all {
			if r.Status().InFlight > 0 {
				r.heal.ask(w.topic)
			}
		}
	}
	eventually(t, "the last call", func() bool { return h.begun.Load() == 7 || condemned.Load() > 0 })
	if condemned.Load() > 0 {
		t.Error("an innocent message was condemned")
	}
	close(h.release)
	eventually(t, "all is committed", func() bool { return w.committed()[0] == 1 })
}

func TestAPartitionWhoseCommitCannotBeReadIsTakenUpWhenItCan(t *testing.T) {
	t.Parallel()
	w, j := fakeWorld(t, 2), newJournal()
	w.produce(0, 1)
	w.produce(1, 1)
	allowed := make(chan struct{})
	w.fake.ControlKey(int16(kmsg.OffsetFetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
		w.fake.KeepControl()
		select {
		case <-allowed:
			return nil, nil, false
		default:
		}
		req := r.(*kmsg.OffsetFetchRequest)
		resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
		for _, g := range req.Groups {
			group := kmsg.NewOffsetFetchResponseGroup()
			group.Group = g.Group
			for _, t := range g.Topics {
				topic := kmsg.NewOffsetFetchResponseGroupTopic()
				topic.Topic, topic.TopicID = t.Topic, t.TopicID
				for _, id := range t.Partitions {
					part := kmsg.NewOffsetFetchResponseGroupTopicPartition()
					part.Partition, part.Offset, part.ErrorCode = id, -1, kerr.TopicAuthorizationFailed.Code
					topic.Partitions = append(topic.Partitions, part)
				}
				group.Topics = append(group.Topics, topic)
			}
			resp.Groups = append(resp.Groups, group)
		}
		return resp, nil, true
	})
	reader, err := New(w.config(), j.settleAll)
	if err != nil {
		t.Fatal(err)
	}
	reader.heal.interval = time.Second
	r := w.start(reader)
	r.says("streams.orders.topics", "TOPIC_AUTHORIZATION_FAILED")
	close(allowed)
	eventually(t, "both records", func() bool { return j.count() == 2 })
	eventually(t, "all is well", func() bool { return r.Status().Err == "" })
}
