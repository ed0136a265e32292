package streams

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stepwell/stepwell/internal/failpoint"
)

// clients are those that fetch, each a share of our partitions. The first is the group's member,
// which commits for all; the others know nothing of the group. What they read changes only within
// gate.change.
type clients struct {
	*common
	gate  *gate
	parts *assignments
	heal  *healer

	size    *fetchSize // how much each asks for
	records recordPool // of all of them

	// set by open
	all       []*fetcher
	endMember context.CancelFunc
	purges    sync.WaitGroup // they end when the clients are closed
}

func newClients(c *common, g *gate, parts *assignments, heal *healer) *clients {
	cs := &clients{common: c, gate: g, parts: parts, heal: heal}
	cs.size = newFetchSize(c.cfg.Window.Bytes, c.cfg.Window.Messages, cs.update)
	return cs
}

// member is the client that is in the group.
func (c *clients) member() *kgo.Client { return c.all[0].client }

// open makes the clients; member returns the options of the group's. That one may be given
// partitions before this returns: what it tells us waits at the gate.
func (c *clients) open(life context.Context, member func(life context.Context) []kgo.Opt) (err error) {
	c.gate.change(func() {
		for i := range c.cfg.Kafka.Fetchers {
			if err = c.openOne(life, i, member); err != nil {
				return
			}
		}
	})
	if err != nil {
		c.close()
		return fmt.Errorf("stream %s: kafka client: %w", c.cfg.Stream, err)
	}
	return nil
}

func (c *clients) openOne(life context.Context, number int, member func(context.Context) []kgo.Opt) (err error) {
	f := newFetcher(number == 0)
	options := func(life context.Context) []kgo.Opt { return c.options(life, number) }
	if f.member {
		life, c.endMember = context.WithCancel(life)
		options = member
	}
	if f.client, err = kgo.NewClient(options(life)...); err != nil {
		return err
	}
	c.all = append(c.all, f)
	return nil
}

// close takes as long as the slowest: each ends its fetch sessions with the brokers.
func (c *clients) close() {
	var all sync.WaitGroup
	for _, f := range c.all {
		all.Go(f.client.Close)
	}
	all.Wait()
}

// update says how much to ask for in one fetch.
func (c *clients) update(whole, partition int32) {
	for _, f := range c.all {
		f.client.UpdateFetchMaxBytes(whole, partition)
	}
}

// divide leaves to the group's member what it reads itself, before it begins.
func (c *clients) divide(mine, others map[string][]int32) {
	if len(c.all) < 2 {
		return
	}
	if len(mine) > 0 {
		c.member().ResumeFetchPartitions(mine)
	}
	if len(others) > 0 {
		c.member().PauseFetchPartitions(others)
	}
}

// keep leaves partitions to the group's member that were to be read by others: those whose commit
// names no leader epoch, as one that a tool wrote. Where it lies beyond a log that was cut, the
// member finds out when it fetches, and begins at the start. A client that does not know the topic
// yet asks where the log ends, and would begin there. Only within gate.change.
func (c *clients) keep(parts map[string][]int32) {
	if len(c.all) < 2 || len(parts) == 0 {
		return
	}
	c.parts.leaveTo(c.all[0], parts)
	c.member().ResumeFetchPartitions(parts)
}

// readFrom tells the other fetchers where to begin with what is still ours. Only within
// gate.change.
func (c *clients) readFrom(offsets map[string]map[int32]kgo.Offset) {
	for _, f := range c.all {
		if f.member {
			continue
		}
		share := map[string]map[int32]kgo.Offset{}
		for topic, parts := range offsets {
			for id, at := range parts {
				if !c.parts.isReadBy(topicPartition{topic, id}, f) {
					continue
				}
				if share[topic] == nil {
					share[topic] = map[int32]kgo.Offset{}
				}
				share[topic][id] = at
			}
		}
		f.read(share)
		if len(share) > 0 {
			failpoint.Hit("shared out")
		}
	}
}

// cease tells the other fetchers what to read no more. Only within gate.change.
func (c *clients) cease(parts []topicPartition) {
	for _, f := range c.all {
		f.cease(parts)
	}
}

// leaveGroup leaves by the client; where that takes long, past it and once it has ended. A member
// that cannot leave is out after its session.
func (c *clients) leaveGroup() {
	limit, cancel := context.WithTimeout(c.life, c.cfg.Group.LeaveTimeout/4)
	defer cancel()
	if c.member().LeaveGroupContext(limit) == nil {
		return
	}
	id, _ := c.member().GroupMetadata()
	c.endMember() // or it would join again when it is told that it has left
	if id == "" || c.cfg.Group.Protocol != "classic" {
		return
	}
	limit, cancel = context.WithTimeout(c.life, c.cfg.Group.LeaveTimeout/4)
	defer cancel()
	client, err := kgo.NewClient(append(slices.Clone(c.cfg.Kafka.Options), kgo.WithContext(limit))...)
	if err != nil {
		return
	}
	defer client.Close()
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group, req.MemberID = c.cfg.Group.ID, id
	member := kmsg.NewLeaveGroupRequestMember()
	member.MemberID = id
	req.Members = append(req.Members, member)
	_, _ = req.RequestWith(limit, client)
}

// wakeAlways wakes until ctx ends, whatever else there is to look after: a topic that is looked for
// again waits for its calls.
func (c *clients) wakeAlways(ctx context.Context) {
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			c.wake()
		}
	}
}

// wake fetches again what has rested, also what is not ours by now: a client keeps a pause over all
// assignments. The group's member leaves alone what another fetcher reads by now.
func (c *clients) wake() {
	for _, f := range c.all {
		rested := f.rested()
		if len(rested) == 0 {
			continue
		}
		c.gate.change(func() {
			again := map[string][]int32{}
			for _, tp := range rested {
				if p := c.parts.lookup(tp); !f.member || p == nil || p.fetcher == f {
					again[tp.topic] = append(again[tp.topic], tp.partition)
				}
			}
			f.client.ResumeFetchPartitions(again)
		})
	}
}

// purge makes a fetcher that is no member forget topics. The client does so when a request for
// metadata that is under way is over, which takes long when brokers are away, and a stop does not
// wait for that: it ends with the client.
func (c *clients) purge(ctx context.Context, f *fetcher, topics ...string) {
	purged := make(chan struct{})
	c.purges.Go(func() {
		defer close(purged)
		f.client.PurgeTopicsFromConsuming(topics...)
	})
	select {
	case <-purged:
	case <-ctx.Done():
	}
}

// forgetIdle makes fetchers forget topics of which they have read nothing for a while: a client
// asks for one that was deleted again and again.
func (c *clients) forgetIdle(ctx context.Context, now time.Time) {
	for _, f := range c.all {
		topics := f.idleSince(now.Add(-idleTopic))
		if len(topics) == 0 {
			continue
		}
		c.purge(ctx, f, topics...)
		c.gate.change(func() {
			for _, topic := range topics {
				if len(f.reading[topic]) > 0 { // it was told to read it meanwhile, and has forgotten that
					c.heal.ask(topic)
				}
			}
		})
	}
}
