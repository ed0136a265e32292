package streams

import (
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	firstFetch = 1 << 20
	leastFetch = 64 << 10
	// mostRecords is about how many records one fetch is to bring at most, however large the
	// window: to unpack 40,000 at once, in two clients, kept both processors from a thousand
	// handlers that wanted to go on, and cost 25 MiB.
	mostRecords = 10_000
	// recordOverhead is what a record takes in memory beside its bytes.
	recordOverhead = 250
	// adaptAfter is how many compressed bytes are looked at between two changes.
	adaptAfter = 1 << 20
)

// firstFetchOf is what each of so many clients asks for before anything is known of the data.
func firstFetchOf(clients int) int32 { return int32(max(firstFetch/clients, leastFetch)) }

// fetchSize adapts how much is asked for in one fetch to the memory it takes once it is unpacked:
// the brokers count compressed bytes, and data may be compressed a hundredfold.
//
// A client asks for more only when all that it fetched is handed out. So what it fetches from all
// brokers is also to have no more records than a window, or mostRecords: what does not fit waits a
// moment, and the next fetch is under way while the rest is worked on. Smaller ones cost more than
// they save: a fetch takes a millisecond or two whatever its size.
type fetchSize struct {
	budget  int // bytes
	records int
	update  func(whole, partition int32)

	mu         sync.Mutex
	seen       map[source]struct{}
	brokers    map[int32]struct{}
	compressed int
	unpacked   int
	count      int // of records
}

// source is a broker as one client sees it: the client may have a fetch of it in memory.
type source struct {
	client int
	broker int32
}

// newFetchSize spends half the window's bytes on what the fetches of all sources may hold, and as
// many records as it takes, but at most mostRecords, on those of a client.
func newFetchSize(windowBytes, windowMessages int, update func(whole, partition int32)) *fetchSize {
	return &fetchSize{budget: max(windowBytes/2, firstFetch), records: min(max(windowMessages, 1), mostRecords), update: update, seen: map[source]struct{}{}, brokers: map[int32]struct{}{}}
}

// fetchMeter tells a fetchSize what one client reads.
type fetchMeter struct {
	size   *fetchSize
	client int
}

var _ kgo.HookFetchBatchRead = fetchMeter{}

// OnFetchBatchRead is called by the client.
func (f fetchMeter) OnFetchBatchRead(broker kgo.BrokerMetadata, _ string, _ int32, m kgo.FetchBatchMetrics) {
	f.size.read(source{f.client, broker.NodeID}, m)
}

func (f *fetchSize) read(from source, m kgo.FetchBatchMetrics) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen[from], f.brokers[from.broker] = struct{}{}, struct{}{}
	f.compressed += m.CompressedBytes
	f.unpacked += m.UncompressedBytes + m.NumRecords*recordOverhead
	f.count += m.NumRecords
	if f.compressed < adaptAfter && f.unpacked < f.budget {
		return
	}
	whole := min(fetchBytes(f.budget/len(f.seen), f.compressed, f.unpacked), fetchBytes(f.records/len(f.brokers), f.compressed, f.count))
	f.compressed, f.unpacked, f.count = f.compressed/2, f.unpacked/2, f.count/2 // so that one odd batch counts less
	f.update(whole, max(whole/2, leastFetch))
}

// fetchBytes is how many compressed bytes unpack to budget, of bytes or of records, judged by what
// was seen.
func fetchBytes(budget, compressed, unpacked int) int32 {
	n := float64(budget) * float64(max(compressed, 1)) / float64(max(unpacked, 1))
	return int32(min(max(n, leastFetch), float64(32<<20)))
}
