package streams

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// While a classic group joins, the client holds commits back and does not leave. A member that died
// keeps a group there until its session is over, one whose handlers are slow for up to the
// rebalance time-out; calls go on meanwhile. So we go round the client then.

// holdsAfter is how long a commit may wait for the client until it counts as held back.
const holdsAfter = 100 * time.Millisecond

// membership is who we are in a generation of a classic group. What was ours when the group's
// assignment was told to us is nobody else's in that generation, and a commit that names it is
// refused in any other.
type membership struct {
	id         string
	generation int32
}

// joined notes the generation in which the partitions that are ours were given to us, or left to
// us.
func (c *committer) joined(client *kgo.Client) {
	if c.cfg.Group.Protocol != "classic" {
		return
	}
	if id, generation := client.GroupMetadata(); id != "" { // else it is no member any more
		c.in.Store(&membership{id, generation})
	}
}

// isAnother says that the client is another member than the one to which our partitions were given:
// the group had put that one out, and somebody may have had them since, and be further than we are.
func (c *committer) isAnother() bool {
	in := c.in.Load()
	if in == nil || len(c.parts.all()) == 0 { // with partitions there is a client: see clients.open
		return false
	}
	id, _ := c.clients.member().GroupMetadata()
	return id != "" && id != in.id
}

// balancer is the client's own. A member that is put out while it joins is joined again by the
// client without a word, and what it had before counts as its own all the time: the client neither
// takes away nor gives again what it is given of that, and goes on reading where it was. So the
// first assignment to the new name is refused: then all is lost, as it is for whoever is put out at
// another time, and is read from its commits on once the client has joined again.
type balancer struct {
	kgo.GroupBalancer
	commits *committer
}

var errPutOut = errors.New("the group had put this member out while it joined: it joins anew, and reads from the commits on")

// ParseSyncAssignment returns what is assigned to us.
func (b balancer) ParseSyncAssignment(assignment []byte) (map[string][]int32, error) {
	if b.commits.isAnother() {
		return nil, errPutOut
	}
	return b.GroupBalancer.ParseSyncAssignment(assignment)
}

// sendPast sends a commit itself. It leaves out the partitions of a topic that has another ID now
// than the one under which they were read.
func (c *committer) sendPast(ctx context.Context, in *membership, s sending) error {
	names := make([]string, 0, len(s.offsets))
	for topic := range s.offsets {
		names = append(names, topic)
	}
	topics, err := kadm.NewClient(c.clients.member()).ListTopics(ctx, names...)
	if err != nil {
		return fmt.Errorf("commit offsets: %w", err)
	}
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.MemberID, req.Generation = c.cfg.Group.ID, in.id, in.generation
	for name, parts := range s.offsets {
		t := kmsg.NewOffsetCommitRequestTopic()
		t.Topic, t.TopicID = name, topics[name].ID
		for id, at := range parts {
			if p := c.parts.lookup(topicPartition{name, id}); topics[name].Err != nil || p == nil || p.topicNow() != t.TopicID {
				continue
			}
			part := kmsg.NewOffsetCommitRequestTopicPartition()
			part.Partition, part.Offset, part.LeaderEpoch = id, at.Offset, at.Epoch
			t.Partitions = append(t.Partitions, part)
		}
		req.Topics = append(req.Topics, t)
	}
	if err := prepare(req, s.metadata); err != nil || len(req.Topics) == 0 {
		return nil //nolint:nilerr // nothing is ours any more
	}
	resp, err := req.RequestWith(ctx, c.clients.member())
	if err == nil {
		err = eachCommitted(req, resp, s.stored)
	}
	if err == nil || isSuperseded(err) {
		return nil
	}
	return fmt.Errorf("commit offsets: %w", err)
}
