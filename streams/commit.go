package streams

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stepwell/stepwell/internal/failpoint"
	"github.com/stepwell/stepwell/internal/ledger"
)

const (
	commitInterval = 200 * time.Millisecond
	// commitTimeout bounds the last commit of a partition. A broker that hangs answers after
	// several request time-outs.
	commitTimeout = 15 * time.Second
	// refusedFor is how long a topic may have another id for the coordinator than for us.
	refusedFor = 2 * time.Second
)

// errNothing ends a commit all of whose partitions were lost before it was sent.
var errNothing = errors.New("nothing to commit")

// committer sends commits, one at a time: when a revoke has its turn, no older commit of its
// partitions is under way.
type committer struct {
	*common
	parts   *assignments
	clients *clients
	status  *status
	heal    *healer

	turn    chan struct{}
	now     chan struct{}        // readable when a commit is not to wait for the next tick
	room    int                  // for metadata; who has the turn has it
	refused map[string]rejection // by topic; who has the turn has it

	in    atomic.Pointer[membership]
	holds *membership // in which the client was seen to hold commits back; who has the turn has it
}

func newCommitter(c *common, parts *assignments, cs *clients, s *status, heal *healer) *committer {
	return &committer{
		common: c, parts: parts, clients: cs, status: s, heal: heal,
		turn: make(chan struct{}, 1), now: make(chan struct{}, 1), room: ledger.MetadataLimit, refused: map[string]rejection{},
	}
}

// run commits what is dirty until ctx ends. Never the poll loop: a commit may hang for half a
// minute.
func (c *committer) run(ctx context.Context) {
	tick := time.NewTicker(commitInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-c.now:
		}
		// Nothing is left to commit: what failed before is stored, or is of an assignment that is
		// over, and no later commit may come to say so.
		if c.commit(ctx, c.parts.all()) {
			c.status.committed(nil)
		}
	}
}

// hurry asks for a commit at once.
func (c *committer) hurry() {
	select {
	case c.now <- struct{}{}:
	default:
	}
}

// commit sends the settled prefix of the partitions, and says whether the broker has all of it.
// What goes wrong is told in the status: the next commit has it again.
func (c *committer) commit(ctx context.Context, parts []*partition) (all bool) {
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	defer func() { <-c.turn }()
	s := c.collect(parts)
	if len(s.of) == 0 {
		return true
	}
	failpoint.Hit("commit")
	err := c.send(ctx, s)
	for errors.Is(err, kerr.OffsetMetadataTooLarge) && c.room > 0 && ctx.Err() == nil {
		c.room /= 2 // at once: this may be the last commit of partitions that go elsewhere
		if s = c.collect(parts); len(s.of) == 0 {
			return true
		}
		err = c.send(ctx, s)
	}
	failpoint.Hit("committed")
	if ctx.Err() == nil {
		c.status.committed(err)
	}
	return len(s.of) == 0
}

// sending is what a commit is to say, less what the broker has of it.
type sending struct {
	c       *committer
	offsets map[string]map[int32]kgo.EpochOffset
	of      map[topicPartition]commitOf
}

type commitOf struct {
	p *partition
	ledger.Checkpoint
}

// collect looks for what is to be committed.
func (c *committer) collect(parts []*partition) sending {
	s := sending{c, make(map[string]map[int32]kgo.EpochOffset), make(map[topicPartition]commitOf, len(parts))}
	for _, p := range parts {
		check, dirty := p.dirty(c.room)
		if !dirty || !c.parts.isOurs(p) {
			continue
		}
		s.of[p.topicPartition] = commitOf{p, check}
		put(s.offsets, p.topicPartition, check.At)
	}
	return s
}

// metadata is what to say of a partition beside its offset, if it is still ours.
func (s sending) metadata(tp topicPartition) (string, bool) {
	return s.of[tp].Metadata, s.c.parts.isOurs(s.of[tp].p)
}

// stored is told what the broker says of a partition.
func (s sending) stored(tp topicPartition, err error) {
	of, ok := s.of[tp]
	switch {
	case ok && err == nil:
		delete(s.c.refused, tp.topic)
		of.p.stored(of.Checkpoint)
		delete(s.of, tp)
	case ok && errors.Is(err, kerr.UnknownTopicID) && s.c.parts.isOurs(of.p):
		s.c.refuse(of.p)
	}
}

// rejection is since when the commits of a partition that is ours are refused, the topic having
// another id.
type rejection struct {
	p     *partition
	since time.Time
}

// refuse asks to look for a topic anew that has had another id for a while. The group's member does
// not notice by itself what other fetchers read well, having found the new topic; a topic that was
// just made has an unknown id for a moment.
func (c *committer) refuse(p *partition) {
	switch was := c.refused[p.topic]; {
	case !c.parts.isOurs(was.p):
		c.refused[p.topic] = rejection{p, time.Now()}
	case time.Since(was.since) > refusedFor:
		delete(c.refused, p.topic)
		c.heal.ask(p.topic)
	}
}

func put(offsets map[string]map[int32]kgo.EpochOffset, tp topicPartition, at ledger.Position) {
	if offsets[tp.topic] == nil {
		offsets[tp.topic] = make(map[int32]kgo.EpochOffset)
	}
	offsets[tp.topic][tp.partition] = kgo.EpochOffset{Epoch: at.Epoch, Offset: at.Offset}
}

// send commits by the client, or past it while it holds commits back: see joining.go.
func (c *committer) send(ctx context.Context, s sending) error {
	in := c.in.Load()
	if in == nil {
		return c.sendByClient(ctx, s.offsets, s.metadata, s.stored)
	}
	if in != c.holds {
		waiting, giveUp := context.WithCancel(ctx)
		defer giveUp()
		limit := time.AfterFunc(holdsAfter, giveUp)
		leaves := false
		err := c.sendByClient(waiting, s.offsets, func(tp topicPartition) (string, bool) {
			leaves = leaves || limit.Stop()
			text, ours := s.metadata(tp)
			return text, ours && leaves
		}, s.stored)
		if leaves || waiting.Err() == nil || ctx.Err() != nil {
			return err
		}
		c.holds = in
	}
	return c.sendPast(ctx, in, s)
}

// sendByClient commits. metadata is asked just before the request leaves, which may be a whole
// rebalance later than now; what is not ours by then is left out. told is called for each partition
// that the broker has committed, or refused to.
func (c *committer) sendByClient(ctx context.Context, offsets map[string]map[int32]kgo.EpochOffset, metadata func(topicPartition) (string, bool), told func(topicPartition, error)) error {
	before := func(req *kmsg.OffsetCommitRequest) error {
		if in := c.in.Load(); in != nil && in.id != req.MemberID {
			return errNothing // what is ours was given to another member
		}
		return prepare(req, metadata)
	}
	var failed error
	c.clients.member().CommitOffsetsSync(kgo.PreCommitFnContext(ctx, before), offsets,
		func(_ *kgo.Client, req *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
			if err != nil || resp == nil {
				failed = err
				return
			}
			failed = eachCommitted(req, resp, told)
		})
	if failed == nil || errors.Is(failed, errNothing) || isSuperseded(failed) {
		return nil
	}
	return fmt.Errorf("commit offsets: %w", failed)
}

// prepare removes what is not to be sent, and writes metadata into what is. Nothing is there where
// the client has refused all: it says so itself.
func prepare(req *kmsg.OffsetCommitRequest, metadata func(topicPartition) (string, bool)) error {
	if len(req.Topics) == 0 {
		return nil
	}
	topics := req.Topics[:0]
	for _, t := range req.Topics {
		parts := t.Partitions[:0]
		for _, p := range t.Partitions {
			if text, still := metadata(topicPartition{t.Topic, p.Partition}); still {
				p.Metadata = &text
				parts = append(parts, p)
			}
		}
		if t.Partitions = parts; len(parts) > 0 {
			topics = append(topics, t)
		}
	}
	if req.Topics = topics; len(topics) == 0 {
		return errNothing
	}
	return nil
}

// eachCommitted tells of each partition whether it is committed, and returns the first error, or
// that there is too much metadata, which less of it mends. Newer brokers answer with the topic's id
// alone.
func eachCommitted(req *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, told func(topicPartition, error)) error {
	var none [16]byte
	names := make(map[[16]byte]string, len(req.Topics))
	for _, t := range req.Topics {
		names[t.TopicID] = t.Topic
	}
	var failed error
	for _, t := range resp.Topics {
		topic := t.Topic
		if topic == "" && t.TopicID != none {
			topic = names[t.TopicID]
		}
		for _, p := range t.Partitions {
			err := kerr.ErrorForCode(p.ErrorCode)
			told(topicPartition{topic, p.Partition}, err)
			if err != nil && (failed == nil || isSuperseded(failed) || errors.Is(err, kerr.OffsetMetadataTooLarge)) {
				failed = fmt.Errorf("topic %s partition %d: %w", topic, p.Partition, err)
			}
		}
	}
	return failed
}

// isSuperseded says that the assignment which the commit was for is over, or about to be: it is
// told to us by a callback.
func isSuperseded(err error) bool {
	return errors.Is(err, kerr.UnknownMemberID) || errors.Is(err, kerr.IllegalGeneration) ||
		errors.Is(err, kerr.RebalanceInProgress) || errors.Is(err, kerr.StaleMemberEpoch) || errors.Is(err, kerr.UnknownTopicID)
}
