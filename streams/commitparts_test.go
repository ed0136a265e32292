package streams

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// commitOfParts is a request for these partitions of topics, in this order.
func commitOfParts(parts ...topicPartition) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	for _, tp := range parts {
		if n := len(req.Topics); n == 0 || req.Topics[n-1].Topic != tp.topic {
			t := kmsg.NewOffsetCommitRequestTopic()
			t.Topic, t.TopicID = tp.topic, [16]byte{byte(len(req.Topics) + 1)}
			req.Topics = append(req.Topics, t)
		}
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition = tp.partition
		of := &req.Topics[len(req.Topics)-1]
		of.Partitions = append(of.Partitions, p)
	}
	return req
}

// Which ones are lost, and where they stand in the request, must not matter.
func TestARequestToCommitKeepsOursAloneWithTheirMetadata(t *testing.T) {
	t.Parallel()
	all := []topicPartition{{"a", 0}, {"a", 1}, {"a", 2}, {"b", 0}, {"c", 0}, {"c", 1}}
	for set := range 1 << len(all) {
		ours := func(tp topicPartition) bool { return set>>slices.Index(all, tp)&1 == 1 }
		var want, got []string
		for _, tp := range all {
			if ours(tp) {
				want = append(want, fmt.Sprintf("%s/%d of %[1]s/%[2]d", tp.topic, tp.partition))
			}
		}
		req := commitOfParts(all...)
		err := prepare(req, func(tp topicPartition) (string, bool) {
			return fmt.Sprintf("of %s/%d", tp.topic, tp.partition), ours(tp)
		})
		for _, topic := range req.Topics {
			if len(topic.Partitions) == 0 {
				t.Errorf("%s has no partition left, and is in the request", topic.Topic)
			}
			for _, p := range topic.Partitions {
				text := "without metadata"
				if p.Metadata != nil {
					text = *p.Metadata
				}
				got = append(got, fmt.Sprintf("%s/%d %s", topic.Topic, p.Partition, text))
			}
		}
		if !slices.Equal(got, want) || errors.Is(err, errNothing) != (len(want) == 0) {
			t.Errorf("committed: %v, %v; want %v", got, err, want)
		}
	}
}

func TestAnAnswerToACommitIsOfItsTopicsByNameOrByID(t *testing.T) {
	t.Parallel()
	req := commitOfParts(topicPartition{"a", 0}, topicPartition{"b", 0}, topicPartition{"b", 1})
	for name, named := range map[string]bool{"by name": true, "by id": false} {
		resp := kmsg.NewPtrOffsetCommitResponse()
		for _, of := range req.Topics {
			topic := kmsg.NewOffsetCommitResponseTopic()
			if topic.TopicID = of.TopicID; named {
				topic.Topic, topic.TopicID = of.Topic, [16]byte{}
			}
			for _, p := range of.Partitions {
				part := kmsg.NewOffsetCommitResponseTopicPartition()
				if part.Partition = p.Partition; p.Partition == 1 {
					part.ErrorCode = kerr.GroupAuthorizationFailed.Code
				}
				topic.Partitions = append(topic.Partitions, part)
			}
			resp.Topics = append(resp.Topics, topic)
		}
		told := map[topicPartition]bool{}
		err := eachCommitted(req, resp, func(tp topicPartition, err error) { told[tp] = err == nil })
		if len(told) != 3 || !told[topicPartition{"a", 0}] || !told[topicPartition{"b", 0}] || told[topicPartition{"b", 1}] {
			t.Errorf("%s: told of %v", name, told)
		}
		if !errors.Is(err, kerr.GroupAuthorizationFailed) || err.Error() != "topic b partition 1: "+kerr.GroupAuthorizationFailed.Error() {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Less metadata mends that, and only that: nothing would be committed of the partition for good.
func TestThatThereIsTooMuchMetadataIsSeenBehindOtherErrors(t *testing.T) {
	t.Parallel()
	req, resp := commitOfParts(topicPartition{"a", 0}, topicPartition{"a", 1}), kmsg.NewPtrOffsetCommitResponse()
	topic := kmsg.NewOffsetCommitResponseTopic()
	topic.Topic = "a"
	for i, err := range []*kerr.Error{kerr.GroupAuthorizationFailed, kerr.OffsetMetadataTooLarge} {
		part := kmsg.NewOffsetCommitResponseTopicPartition()
		part.Partition, part.ErrorCode = int32(i), err.Code
		topic.Partitions = append(topic.Partitions, part)
	}
	resp.Topics = append(resp.Topics, topic)
	if err := eachCommitted(req, resp, func(topicPartition, error) {}); !errors.Is(err, kerr.OffsetMetadataTooLarge) {
		t.Error(err)
	}
}

// Of these a callback tells: they are nobody's trouble.
func TestWhatEndsACommitOfAnAssignmentThatIsOverIsNoTrouble(t *testing.T) {
	t.Parallel()
	over := []error{kerr.UnknownMemberID, kerr.IllegalGeneration, kerr.RebalanceInProgress, kerr.StaleMemberEpoch, kerr.UnknownTopicID}
	for _, err := range append([]error{kerr.GroupAuthorizationFailed, kerr.OffsetMetadataTooLarge, kerr.CoordinatorNotAvailable}, over...) {
		want := slices.Contains(over, err)
		if got := isSuperseded(fmt.Errorf("topic a: %w", err)); got != want {
			t.Errorf("%v is over: %t, want %t", err, got, want)
		}
	}
}
