package streams

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// options are those of a client that reads. They are chosen for a fast fail-over and bounded
// memory: a coordinator that dies is found in seconds, one hung broker costs one short time-out
// after another, new topics and partitions are seen within ten seconds. number tells it from the
// other clients of the reader.
func (c *clients) options(life context.Context, number int) []kgo.Opt {
	cfg := c.cfg
	opts := []kgo.Opt{
		kgo.DialTimeout(3 * time.Second),
		kgo.RequestTimeoutOverhead(2 * time.Second),
		kgo.MetadataMinAge(time.Second),
		kgo.MetadataMaxAge(10 * time.Second),
		kgo.RetryBackoffFn(backoff),
		kgo.FetchMaxWait(500 * time.Millisecond),
	}
	opts = append(opts, cfg.Kafka.Options...)
	opts = append(opts, cfg.Kafka.Extra()...)
	opts = append(opts,
		kgo.WithContext(life),
		kgo.WithHooks(fetchMeter{c.size, number}),
		kgo.WithPools(&c.records),
		kgo.FetchMaxBytes(firstFetchOf(cfg.Kafka.Fetchers)),
		kgo.FetchMaxPartitionBytes(firstFetchOf(cfg.Kafka.Fetchers)),
		// No commit: see adjust. An expired one: the earliest record left, never the end, which
		// would skip everything silently.
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		// Commits go past the end of a transaction, and past one that was aborted, because its
		// marker is read: see append.
		kgo.KeepControlRecords(),
	)
	if !cfg.ReadUncommitted {
		opts = append(opts, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	if cfg.Kafka.ClientID != "" {
		opts = append(opts, kgo.ClientID(cfg.Kafka.ClientID))
	}
	return opts
}

// options are those of the client that is the group's member.
func (r *Reader) options(life context.Context) []kgo.Opt {
	c := r.cfg
	opts := append(r.clients.options(life, 0),
		kgo.ClientID(c.memberID(c.Guard.Process)),
		kgo.ConsumerGroup(c.Group.ID),
		kgo.SessionTimeout(c.Group.SessionTimeout),
		kgo.HeartbeatInterval(c.Group.HeartbeatInterval),
		kgo.RebalanceTimeout(c.Group.RebalanceTimeout),
		kgo.DisableAutoCommit(),
		kgo.OnPartitionsAssigned(r.rebalances.onAssigned),
		kgo.OnPartitionsRevoked(r.rebalances.onRevoked),
		kgo.OnPartitionsLost(r.rebalances.onLost),
		kgo.OnOffsetsFetched(r.starts.onFetched),
		kgo.AdjustFetchOffsetsFn(r.starts.adjust),
	)
	if c.Pattern != "" {
		opts = append(opts, kgo.ConsumeRegex(), kgo.ConsumeTopics(c.wholeName()))
	} else {
		opts = append(opts, kgo.ConsumeTopics(c.Topics...))
	}
	if c.Group.Protocol == "consumer" {
		opts = append(opts, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	} else {
		opts = append(opts, kgo.Balancers(balancer{kgo.CooperativeStickyBalancer(), r.commits}))
	}
	return opts
}

// backoff is 100 ms, doubled with each failure, at most a second.
func backoff(failures int) time.Duration {
	return min(time.Second, 50*time.Millisecond<<min(failures, 5))
}
