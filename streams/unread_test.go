package streams

import (
	"context"
	"maps"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

func TestATopicThatIsReadNoMoreIsToldOfOnceRecordsWaitInIt(t *testing.T) {
	t.Parallel()
	each(t, 2, func(t *testing.T, w *world) {
		other := w.topic + "-other"
		w.create(other, 2)
		t.Cleanup(func() { _, _ = w.admin.DeleteTopics(context.WithoutCancel(t.Context()), other) })
		send := func(topic string, n int) {
			for range n {
				w.send(&kgo.Record{Topic: topic, Partition: 1})
			}
		}
		both := w.config()
		both.Topics = []string{w.topic, other}
		send(w.topic, 2)
		send(other, 2)
		j := newJournal()
		old := w.run(both, j.settleAll)
		eventually(t, "both are read", func() bool { return j.count() == 4 })

		var log logbook
		one := w.config()
		one.Logger = log.logger()
		reader, err := New(one, j.settleAll)
		if err != nil {
			t.Fatal(err)
		}
		reader.watch.unread.interval = 0
		w.start(reader)
		told := func() int {
			return log.count("level=WARN", "does not read", other, "records=3", "setting=streams.orders.topics")
		}
		eventually(t, "both are members", func() bool { joined, _ := reader.status.read(); return joined })
		send(other, 2)
		eventually(t, "the old one reads on", func() bool { return j.count() == 6 })
		if err := old.end(); err != nil {
			t.Fatal(err)
		}
		if n := log.count("does not read"); n != 0 {
			t.Errorf("%d lines though nothing waits", n)
		}
		send(other, 3)
		eventually(t, "it is told", func() bool { return told() == 1 })
	})
}

func TestATopicIsToldOfOnceAndOnlyWhereItsCommitsStandStill(t *testing.T) {
	u := newUnread()
	still, moving := topicPartition{"still", 0}, topicPartition{"moving", 0}
	for look, want := range []map[string]int64{{}, {"still": 3}, {}, {}} {
		got := u.see(map[topicPartition]behind{still: {5, 8}, moving: {int64(look), 100}})
		if !maps.Equal(got, want) {
			t.Errorf("look %d tells of %v, want %v", look, got, want)
		}
	}
	if got := u.see(map[topicPartition]behind{moving: {3, 100}}); got["moving"] != 97 {
		t.Errorf("of one that is read no longer it tells %v", got)
	}
}
