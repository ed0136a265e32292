package streams

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/twmb/franz-go/pkg/kgo"
)

// reserved is an option of clients that must be left alone, and why.
type reserved struct {
	name   string
	option any
	why    string
}

// reservedOptions are those that a reader sets itself, or that would break what it promises.
func reservedOptions(setting func(key string) string) []reserved {
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
	return []reserved{
		{"ConsumerGroup", kgo.ConsumerGroup, groups}, {"ShareGroup", kgo.ShareGroup, groups}, {"GroupProtocol", kgo.GroupProtocol, groups},
		{"Balancers", kgo.Balancers, groups}, {"ServerSideBalancer", kgo.ServerSideBalancer, groups},
		{"InstanceID", kgo.InstanceID, "a member that stops leaves its group, so that others go on at once"},
		{"SessionTimeout", kgo.SessionTimeout, is("kafka.session_timeout")},
		{"RebalanceTimeout", kgo.RebalanceTimeout, "what handlers may take in a revoke follows from it"},
		{"HeartbeatInterval", kgo.HeartbeatInterval, "it follows from " + setting("kafka.session_timeout")},
		{"BlockRebalanceOnPoll", kgo.BlockRebalanceOnPoll, "it stops heartbeats while handlers run"},
		{"DisableAutoCommit", kgo.DisableAutoCommit, commits}, {"GreedyAutoCommit", kgo.GreedyAutoCommit, commits},
		{"AutoCommitMarks", kgo.AutoCommitMarks, commits}, {"AutoCommitInterval", kgo.AutoCommitInterval, commits},
		{"AutoCommitCallback", kgo.AutoCommitCallback, commits},
		{"OnOffsetsFetched", kgo.OnOffsetsFetched, group},
		{"AdjustFetchOffsetsFn", kgo.AdjustFetchOffsetsFn, offsets}, {"ConsumeStartOffset", kgo.ConsumeStartOffset, offsets},
		{"ConsumeResetOffset", kgo.ConsumeResetOffset, offsets},
		{"ConsumeTopics", kgo.ConsumeTopics, topics}, {"ConsumePartitions", kgo.ConsumePartitions, topics},
		{"ConsumeRegex", kgo.ConsumeRegex, topics}, {"ConsumeExcludeTopics", kgo.ConsumeExcludeTopics, topics},
		{"FetchIsolationLevel", kgo.FetchIsolationLevel, is("kafka.isolation")},
		{"KeepControlRecords", kgo.KeepControlRecords, "the reader keeps them, and shows them to nobody"},
		{"KeepRetryableFetchErrors", kgo.KeepRetryableFetchErrors, "the reader tells an error that passes from one that stays by it"},
		{"FetchMaxBytes", kgo.FetchMaxBytes, window}, {"FetchMaxPartitionBytes", kgo.FetchMaxPartitionBytes, window},
		{"WithPools", kgo.WithPools, "the reader has its own"},
		{"ClientID", kgo.ClientID, is("kafka.client_id")},
		{"TransactionalID", kgo.TransactionalID, "a reader produces nothing"},
	}
}

// CheckOptions returns an error that names each option which a reader does not leave to others.
// What an option sets shows only in a client, so two are made, which connect nowhere, and closed.
// setting is [Config.Setting].
func CheckOptions(setting func(key string) string, opts []kgo.Opt) error {
	if len(opts) == 0 {
		return nil
	}
	never, cancel := context.WithCancel(context.Background())
	cancel()
	clientWith := func(opts []kgo.Opt) (*kgo.Client, error) { // some options are refused without a group
		opts = append([]kgo.Opt{kgo.ConsumerGroup("none"), kgo.ConsumeTopics("none")}, opts...)
		return kgo.NewClient(append(opts, kgo.WithContext(never))...)
	}
	plain, err := clientWith(nil)
	if err != nil {
		return err
	}
	defer plain.Close()
	theirs, err := clientWith(opts)
	if err != nil {
		return err
	}
	defer theirs.Close()
	var errs []error
	for _, o := range reservedOptions(setting) {
		if !same(plain.OptValues(o.option), theirs.OptValues(o.option)) {
			errs = append(errs, fmt.Errorf("kgo.%s is not to be set: %s", o.name, o.why))
		}
	}
	if len(errs) == 0 { // callbacks about partitions do not show in a client, and are refused without a group
		return kgo.ValidateOpts(opts...)
	}
	return errors.Join(errs...)
}

// same compares what options were given; two functions are the same if both are nil.
func same(a, b []any) bool {
	for i := range a {
		x, y := reflect.ValueOf(a[i]), reflect.ValueOf(b[i])
		if x.IsValid() && y.IsValid() && x.Kind() == reflect.Func && y.Kind() == reflect.Func {
			if x.Pointer() != y.Pointer() {
				return false
			}
			continue
		}
		if !reflect.DeepEqual(a[i], b[i]) {
			return false
		}
	}
	return len(a) == len(b)
}
