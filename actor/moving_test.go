package actor_test

import (
	"context"
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell"
)

// These are the steps of docs/MIGRATING.md, as far as they are ours.

// streamsMetadata is what Kafka Streams writes beside an offset: a version, and a time.
var streamsMetadata = base64.StdEncoding.EncodeToString([]byte{1, 0, 0, 1, 0x8f, 0, 0, 0, 0})

// five writes as many records, and returns the partition that they are in.
func (w *world) five() (partition int32) {
	records := values("0", "1", "2", "3", "4")
	w.produce(records...)
	return records[0].Partition
}

// commit is a commit of another program's group.
func (w *world) commit(group string, partition int32, at int64, metadata string) {
	w.t.Helper()
	var to kadm.Offsets
	to.Add(kadm.Offset{Topic: w.topic, Partition: partition, At: at, LeaderEpoch: -1, Metadata: metadata})
	if answers, err := kadm.NewClient(w.client).CommitOffsets(w.t.Context(), group, to); err != nil || answers.Error() != nil {
		w.t.Fatalf("commit: %v, %v", err, answers)
	}
}

// commitOf is where a group stands, and what its commit says beside that.
func (w *world) commitOf(group string, partition int32) (at int64, metadata string) {
	w.t.Helper()
	offsets, err := kadm.NewClient(w.client).FetchOffsets(context.Background(), group)
	if err != nil {
		return -1, ""
	}
	o, _ := offsets.Lookup(w.topic, partition)
	return o.At, o.Metadata
}

// values are those of all calls, in their order.
func (c *calls) values() (all []string) {
	for _, call := range c.all() {
		all = append(all, string(call.m.Value))
	}
	return all
}

func TestAGroupThatAnotherProgramLeftIsTakenOverWhereItStopped(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		p := w.five()
		old := w.app + "-theirs"
		w.commit(old, p, 3, streamsMetadata)
		var c calls
		r := w.start(orders(func(_ context.Context, m *stepwell.Message) error { c.add(m); return nil }),
			settings{"STREAMS_ORDERS_GROUP": old})
		eventually(t, "the rest is handled and committed", func() bool {
			at, _ := w.commitOf(old, p)
			return at == 5
		})
		r.end()
		if got := c.values(); !slices.Equal(got, []string{"3", "4"}) {
			t.Errorf("handled %q, want what comes behind the commit", got)
		}
	})
}

func TestOffsetsOfAnotherGroupThatAreCopiedAreWhereAStreamBeginsAndBack(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		p := w.five()
		old, ours := w.app+"-theirs", w.app+".orders"
		w.commit(old, p, 3, streamsMetadata)
		at, _ := w.commitOf(old, p)
		w.commit(ours, p, at, "") // as kafka-consumer-groups --reset-offsets --from-file does
		var c calls
		// A group without commits would begin at the end.
		r := w.start(orders(func(_ context.Context, m *stepwell.Message) error { c.add(m); return nil }), settings{"START": "latest"})
		eventually(t, "the rest is handled and committed", func() bool {
			at, metadata := w.commitOf(ours, p)
			return at == 5 && strings.HasPrefix(metadata, "stepwell/")
		})
		r.end()
		if got := c.values(); !slices.Equal(got, []string{"3", "4"}) {
			t.Errorf("handled %q, want what comes behind the commit", got)
		}
		if at, metadata := w.commitOf(old, p); at != 3 || metadata != streamsMetadata {
			t.Errorf("the other group was touched: %d %q", at, metadata)
		}
	})
}

func TestTopicsOfAnotherToolsRetriesAreReadAsFurtherTopicsOfTheStream(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		retried, dead := w.topic+"-retry-1000", w.topic+"-dlt"
		w.createTopic(retried, 1)
		w.createTopic(dead, 1)
		w.produce(&kgo.Record{Topic: retried, Value: []byte("waits"), Headers: []kgo.RecordHeader{{Key: "kafka_original-topic", Value: []byte(w.topic)}}},
			&kgo.Record{Topic: dead, Value: []byte("dead")})
		var c calls
		r := w.start(orders(func(_ context.Context, m *stepwell.Message) error {
			c.add(m)
			if string(m.Value) == "dead" {
				return errFlaky
			}
			return nil
		}), settings{"STREAMS_ORDERS_TOPICS": w.topic + "," + retried + "," + dead, "RETRY_COUNT": "0"})
		if m := r.deadCount(1)[0]; m["value"] != "dead" || m["topic"] != dead || m["id"] != dead+":0:0" {
			t.Errorf("in the dead set: %v", m)
		}
		eventually(t, "what waited is handled", func() bool { return slices.Contains(c.values(), "waits") })
	})
}
