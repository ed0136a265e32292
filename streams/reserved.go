package streams

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell/internal/reserved"
)

// reservedOptions are those that a reader sets itself, or that would break what it promises.
func reservedOptions(setting func(key string) string) []reserved.Option {
	const commits = "the reader commits by itself, and only what is settled"
	var (
		offsets = "the reader says where it begins: " + setting("start")
		topics  = "the reader says what it reads: its topics or their pattern"
		window  = "the reader bounds fetches by its window: " + setting("window_bytes")
		groups  = "the reader joins one group, as its group and " + setting("kafka.group_protocol") + " say"
		is      = func(key string) string { return "there is a setting: " + setting(key) }
	)
	return []reserved.Option{
		{Name: "SeedBrokers", Option: kgo.SeedBrokers, Why: is("kafka.brokers") + ", for all streams of a program"},
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
		{Name: "OnOffsetsFetched", Option: kgo.OnOffsetsFetched, Why: tellsPartitions},
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

// tellsPartitions is why callbacks about them are reserved.
const tellsPartitions = "the reader is told of its partitions by it"

// callbacks are reserved, too. A client with a group wraps them, so that they do not show, and one
// without refuses them, but not those that are nil.
func callbacks() map[string]kgo.Opt {
	return map[string]kgo.Opt{
		"OnPartitionsAssigned": kgo.OnPartitionsAssigned(nil),
		"OnPartitionsRevoked":  kgo.OnPartitionsRevoked(nil),
		"OnPartitionsLost":     kgo.OnPartitionsLost(nil),
	}
}

// callbacksIn returns an error for each callback in opts. err is the client's own: opts are refused
// without a group for another reason.
func callbacksIn(opts []kgo.Opt) (found []error, err error) {
	without := callbacks()
	with := func(name string) error { // none but that
		all := slices.Clone(opts)
		for other, none := range without {
			if other != name {
				all = append(all, none)
			}
		}
		return kgo.ValidateOpts(all...)
	}
	if err := with(""); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(without)) {
		if with(name) != nil {
			found = append(found, fmt.Errorf("kgo.%s is not to be set: %s", name, tellsPartitions))
		}
	}
	return found, nil
}

// nobodys are options without which some others are refused, or change one another. Their values
// are nobody's, so that what sets the client's default shows as well.
func nobodys() []kgo.Opt {
	offset := kgo.NewOffset().At(1 << 62)
	return []kgo.Opt{
		kgo.ConsumerGroup("none"), kgo.SeedBrokers("none:1"), kgo.ConsumeStartOffset(offset), kgo.ConsumeResetOffset(offset),
		kgo.FetchMaxPartitionBytes(1), // which FetchMaxBytes would lower
	}
}

// CheckOptions returns an error that names each option which a reader does not leave to others. One
// that sets the client's default mostly does not show. Nothing is connected. setting is
// [Config.Setting].
func CheckOptions(setting func(key string) string, opts []kgo.Opt) error {
	if len(opts) == 0 {
		return nil
	}
	found, err := reserved.Find(reservedOptions(setting), nobodys(), opts)
	if err != nil {
		return err
	}
	more, err := callbacksIn(opts)
	if len(found) == 0 && err != nil {
		return err
	}
	return errors.Join(append(found, more...)...)
}
