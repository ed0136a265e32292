package streams

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell/internal/reserved"
)

// reservedOptions are those that a reader sets itself, or that would break what it promises.
func reservedOptions(setting func(key string) string) []reserved.Option {
	const (
		commits = "the reader commits by itself, and only what is settled"
		group   = "the reader is told of its partitions by it"
	)
	var (
		offsets = "the reader says where it begins: " + setting("start")
		topics  = "the reader says what it reads: its topics or their pattern"
		window  = "the reader bounds fetches by its window: " + setting("window_bytes")
		groups  = "the reader joins one group, as its group and " + setting("kafka.group_protocol") + " say"
		is      = func(key string) string { return "there is a setting: " + setting(key) }
	)
	return []reserved.Option{
		{Name: "ConsumerGroup", Option: kgo.ConsumerGroup, Why: groups},
		{Name: "ShareGroup", Option: kgo.ShareGroup, Why: groups},
		{Name: "GroupProtocol", Option: kgo.GroupProtocol, Why: groups},
		{Name: "Balancers", Option: kgo.Balancers, Why: groups},
		{Name: "ServerSideBalancer", Option: kgo.ServerSideBalancer, Why: groups},
		{Name: "InstanceID", Option: kgo.InstanceID, Why: "a member that stops leaves its group, so that others go on at once"},
		{Name: "SessionTimeout", Option: kgo.SessionTimeout, Why: is("kafka.session_timeout")},
		{Name: "RebalanceTimeout", Option: kgo.RebalanceTimeout, Why: "what handlers may take in a revoke follows from it"},
		{Name: "HeartbeatInterval", Option: kgo.HeartbeatInterval, Why: "it follows from " + setting("kafka.session_timeout")},
		{Name: "BlockRebalanceOnPoll", Option: kgo.BlockRebalanceOnPoll, Why: "it stops heartbeats while handlers run"},
		{Name: "DisableAutoCommit", Option: kgo.DisableAutoCommit, Why: commits},
		{Name: "GreedyAutoCommit", Option: kgo.GreedyAutoCommit, Why: commits},
		{Name: "AutoCommitMarks", Option: kgo.AutoCommitMarks, Why: commits},
		{Name: "AutoCommitInterval", Option: kgo.AutoCommitInterval, Why: commits},
		{Name: "AutoCommitCallback", Option: kgo.AutoCommitCallback, Why: commits},
		{Name: "OnOffsetsFetched", Option: kgo.OnOffsetsFetched, Why: group},
		{Name: "AdjustFetchOffsetsFn", Option: kgo.AdjustFetchOffsetsFn, Why: offsets},
		{Name: "ConsumeStartOffset", Option: kgo.ConsumeStartOffset, Why: offsets},
		{Name: "ConsumeResetOffset", Option: kgo.ConsumeResetOffset, Why: offsets},
		{Name: "ConsumeTopics", Option: kgo.ConsumeTopics, Why: topics},
		{Name: "ConsumePartitions", Option: kgo.ConsumePartitions, Why: topics},
		{Name: "ConsumeRegex", Option: kgo.ConsumeRegex, Why: topics},
		{Name: "ConsumeExcludeTopics", Option: kgo.ConsumeExcludeTopics, Why: topics},
		{Name: "FetchIsolationLevel", Option: kgo.FetchIsolationLevel, Why: is("kafka.isolation")},
		{Name: "KeepControlRecords", Option: kgo.KeepControlRecords, Why: "the reader keeps them, and shows them to nobody"},
		{Name: "KeepRetryableFetchErrors", Option: kgo.KeepRetryableFetchErrors, Why: "the reader tells an error that passes from one that stays by it"},
		{Name: "FetchMaxBytes", Option: kgo.FetchMaxBytes, Why: window},
		{Name: "FetchMaxPartitionBytes", Option: kgo.FetchMaxPartitionBytes, Why: window},
		{Name: "WithPools", Option: kgo.WithPools, Why: "the reader has its own"},
		{Name: "ClientID", Option: kgo.ClientID, Why: is("kafka.client_id")},
		{Name: "TransactionalID", Option: kgo.TransactionalID, Why: "a reader produces nothing"},
	}
}

// CheckOptions returns an error that names each option which a reader does not leave to others.
// Nothing is connected. setting is [Config.Setting].
func CheckOptions(setting func(key string) string, opts []kgo.Opt) error {
	if len(opts) == 0 {
		return nil
	}
	// Some options are refused without a group.
	found, err := reserved.Find(reservedOptions(setting), []kgo.Opt{kgo.ConsumerGroup("none"), kgo.ConsumeTopics("none")}, opts)
	if err != nil {
		return err
	}
	if len(found) == 0 { // callbacks about partitions do not show in a client, and are refused without a group
		return kgo.ValidateOpts(opts...)
	}
	return errors.Join(found...)
}
