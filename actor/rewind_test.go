package actor_test

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/testbroker"
)

func TestARecordThatAnOperatorWantsAgainIsHandledAndRetriedAgain(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		var c calls
		r := w.start(orders(failsFirst(&c)), nil)
		w.produce(values("x")...)
		eventually(t, "it failed, was retried and is committed", func() bool { return c.of("x", 1) > 0 && c.of("x", 2) > 0 && w.committed() == 1 })
		r.queuesEmpty()
		w.rewind()
		eventually(t, "it is handled again", func() bool { return c.of("x", 1) >= 2 })
		eventually(t, "it is retried again", func() bool { return c.of("x", 2) >= 2 })
		r.queuesEmpty()
	})
}

func TestARewindOfAStoppedActorRetriesAgain(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		var c calls
		first := w.start(orders(failsFirst(&c)), nil)
		w.produce(values("x")...)
		eventually(t, "it failed, was retried and is committed", func() bool { return c.of("x", 1) > 0 && c.of("x", 2) > 0 && w.committed() == 1 })
		first.queuesEmpty()
		first.end()
		w.rewind()
		second := w.start(orders(failsFirst(&c)), nil)
		eventually(t, "it is handled and retried again", func() bool { return c.of("x", 1) >= 2 && c.of("x", 2) >= 2 })
		second.queuesEmpty()
	})
}

// Who has the retries remembers what it settled, and lives on while the reader is another process.
func TestARewindIsRetriedAgainByAProcessThatLivesThroughIt(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		var c calls
		retries, first := w.apart(t, failsFirst(&c))
		w.produce(values("x")...)
		eventually(t, "it failed, was retried and is committed", func() bool { return c.of("x", 1) > 0 && c.of("x", 2) > 0 && w.committed() == 1 })
		retries.queuesEmpty()
		first.end()
		w.rewind()
		w.start(orders(failsFirst(&c)), settings{"MODES": "streams,api"})
		eventually(t, "it is handled and retried again", func() bool { return c.of("x", 1) >= 2 && c.of("x", 2) >= 2 })
		retries.queuesEmpty()
	})
}

func TestAnotherGroupThatReadsTheSameRetriesAgainInAProcessThatLivesThroughIt(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		var c calls
		retries, first := w.apart(t, failsFirst(&c))
		w.produce(values("x")...)
		eventually(t, "it failed, was retried and is committed", func() bool { return c.of("x", 1) > 0 && c.of("x", 2) > 0 && w.committed() == 1 })
		retries.queuesEmpty()
		first.end()
		w.start(orders(failsFirst(&c)), settings{"MODES": "streams,api", "STREAMS_ORDERS_GROUP": w.app + ".anew"})
		eventually(t, "it is handled and retried again", func() bool { return c.of("x", 1) >= 2 && c.of("x", 2) >= 2 })
		retries.queuesEmpty()
	})
}

// What was settled after a commit is read again by the next owner where that commit was the last
// one that Kafka has.
func TestAFailureThatTheNextOwnerRepeatsIsNotRetriedTwiceByWhoRemembersIt(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		var c calls
		flaky := failsFirst(&c)
		retries, first := w.apart(t, func(ctx context.Context, m *stepwell.Message) error {
			if string(m.Value) == "done" {
				return nil
			}
			return flaky(ctx, m)
		})
		admin, group := kadm.NewClient(w.client), w.app+".orders"
		w.produce(keyed("k", "done")...)
		eventually(t, "the one before it is committed", func() bool { return w.committed() == 1 })
		before, err := admin.FetchOffsets(t.Context(), group)
		if err != nil {
			t.Fatal(err)
		}
		w.produce(keyed("k", "x")...)
		eventually(t, "it failed, was retried and is committed", func() bool { return c.of("x", 1) > 0 && c.of("x", 2) > 0 && w.committed() == 2 })
		retries.queuesEmpty()
		first.end()
		repeats, calls := max(0, retries.metric("stepwell_duplicates_total")), c.of("x", 2)
		eventually(t, "that commit is lost", func() bool {
			answers, err := admin.CommitOffsets(t.Context(), group, before.Offsets())
			return err == nil && answers.Error() == nil
		})
		w.start(orders(failsFirst(&c)), settings{"MODES": "streams,api"})
		eventually(t, "it failed again and is committed", func() bool { return c.of("x", 1) >= 2 && w.committed() == 2 })
		eventually(t, "its retry is known", func() bool { return retries.metric("stepwell_duplicates_total") > repeats })
		retries.queuesEmpty()
		if again := c.of("x", 2) - calls; again > 0 {
			t.Errorf("it was retried %d times more", again)
		}
	})
}

// apart starts a process for the retries and one that reads.
func (w *world) apart(t *testing.T, h stepwell.Handler) (retries, reader *running) {
	t.Helper()
	retries = w.start(orders(h), settings{"MODES": "retries,api"})
	return retries, w.start(orders(h), settings{"MODES": "streams,api"})
}

func TestARecordOfATopicMadeAnewIsRetriedThoughItsOffsetWasSettledBefore(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		var c calls
		r := w.start(orders(failsFirst(&c)), nil)
		fill := w.filling()
		fill()
		eventually(t, "it failed, was retried and is committed", func() bool { return c.of("x", 1) > 0 && c.of("x", 2) > 0 && w.committed() == 1 })
		r.queuesEmpty()
		before := c.of("x", 2)
		w.remake(t)
		fill()
		eventually(t, "the new record is handled and retried", func() bool { return c.of("x", 1) > 1 && c.of("x", 2) > before })
		r.queuesEmpty()
	})
}

func TestARecordOfATopicMadeAnewIsRetriedByAProcessThatLivesThroughIt(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		var c calls
		retries, first := w.apart(t, failsFirst(&c))
		fill := w.filling()
		fill()
		eventually(t, "it failed, was retried and is committed", func() bool { return c.of("x", 1) > 0 && c.of("x", 2) > 0 && w.committed() == 1 })
		retries.queuesEmpty()
		first.end()
		before := c.of("x", 2)
		w.remake(t)
		fill()
		w.start(orders(failsFirst(&c)), settings{"MODES": "streams,api"})
		eventually(t, "the new record is handled and retried", func() bool { return c.of("x", 1) > 1 && c.of("x", 2) > before })
		retries.queuesEmpty()
	})
}

// filling fills the topic, each time with what it had: the same bytes, the same times. Only that it
// is another topic tells them apart. The time is today's: Kafka deletes what is old, within five
// minutes.
func (w *world) filling() func() {
	at := time.UnixMilli(time.Now().UnixMilli())
	return func() {
		x := values("x")
		x[0].Timestamp = at
		w.produce(x...)
	}
}

// remake makes the topic anew.
func (w *world) remake(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := testbroker.RemakeTopic(ctx, w.client, w.topic, 4); err != nil {
		t.Fatal(err)
	}
	w.client.PurgeTopicsFromClient(w.topic)
}

// failsFirst fails each first try.
func failsFirst(c *calls) stepwell.Handler {
	return func(_ context.Context, m *stepwell.Message) error {
		c.add(m)
		if m.Attempt == 1 {
			return errFlaky
		}
		return nil
	}
}

// of is how many calls were for this attempt of the value.
func (c *calls) of(value string, attempt int) (n int) {
	for _, s := range c.all() {
		if string(s.m.Value) == value && s.m.Attempt == attempt {
			n++
		}
	}
	return n
}

// rewind puts the group back to the beginning, as an operator does: what is in the group is put out
// of it first, since Kafka refuses it otherwise. Members that live come back by themselves.
func (w *world) rewind() {
	w.t.Helper()
	admin := kadm.NewClient(w.client)
	group := w.app + ".orders"
	eventually(w.t, "the group is at the beginning", func() bool {
		groups, err := admin.DescribeGroups(w.t.Context(), group)
		if err != nil {
			return false
		}
		for _, m := range groups[group].Members {
			leave := kmsg.NewPtrLeaveGroupRequest()
			member := kmsg.NewLeaveGroupRequestMember()
			leave.Group, member.MemberID = group, m.MemberID
			leave.Members = append(leave.Members, member)
			if _, err := leave.RequestWith(w.t.Context(), w.client); err != nil {
				return false
			}
		}
		var to kadm.Offsets
		for p := range int32(4) {
			to.AddOffset(w.topic, p, 0, -1)
		}
		answers, err := admin.CommitOffsets(w.t.Context(), group, to)
		return err == nil && answers.Error() == nil
	})
}
