package streams

import (
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	firstFetch = 1 << 20
	leastFetch = 64 << 10
	// recordOverhead is what a record takes in memory beside its bytes.
	recordOverhead = 250
	// adaptAfter is how many compressed bytes are looked at between two changes.
	adaptAfter = 1 << 20
)

// fetchSize adapts how much is asked for in one fetch to the memory it takes once it is unpacked: the brokers count compressed
// bytes, and data may be compressed a hundredfold.
type fetchSize struct {
	budget int
	update func(whole, partition int32)

	mu         sync.Mutex
	brokers    map[int32]struct{}
	compressed int
	unpacked   int
}

// newFetchSize spends half the window on what all brokers' fetches may hold.
func newFetchSize(windowBytes int, update func(whole, partition int32)) *fetchSize {
	return &fetchSize{budget: max(windowBytes/2, firstFetch), update: update, brokers: map[int32]struct{}{}}
}

var _ kgo.HookFetchBatchRead = (*fetchSize)(nil)

// OnFetchBatchRead is called by the client.
func (f *fetchSize) OnFetchBatchRead(broker kgo.BrokerMetadata, _ string, _ int32, m kgo.FetchBatchMetrics) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.brokers[broker.NodeID] = struct{}{}
	f.compressed += m.CompressedBytes
	f.unpacked += m.UncompressedBytes + m.NumRecords*recordOverhead
	if f.compressed < adaptAfter && f.unpacked < f.budget {
		return
	}
	whole := fetchBytes(f.budget/len(f.brokers), f.compressed, f.unpacked)
	f.compressed, f.unpacked = f.compressed/2, f.unpacked/2 // so that one odd batch counts less
	f.update(whole, max(whole/2, leastFetch))
}

// fetchBytes is how many compressed bytes unpack to budget, judged by what was seen.
func fetchBytes(budget, compressed, unpacked int) int32 {
	n := float64(budget) * float64(max(compressed, 1)) / float64(max(unpacked, 1))
	return int32(min(max(n, leastFetch), float64(32<<20)))
}
