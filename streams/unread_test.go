package streams

import (
	"context"
	"testing"
	"time"

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
		time.Sleep(2 * lookInterval)
		if n := log.count("does not read"); n != 1 {
			t.Errorf("it is told %d times", n)
		}
	})
}
