package telemetry

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/semconv/v1.43.0/messagingconv"

	"github.com/stepwell/stepwell"
)

const (
	// lanes bounds the memory: calls on more goroutines than that share one, and stay correct.
	lanes = 16
	// buckets is one more than there are boundaries: the last has what is above all of them.
	buckets = 18
)

// durations is the histogram of handler calls of one stream, by verdict; failed has those that
// failed. It stands for OpenTelemetry's where we export the metrics ourselves: that one looks up
// attributes for each value, which takes longer than all else that a call costs. Callers that run
// side by side pass different lanes and share no memory.
type durations struct {
	// began is since when is counted: a cumulative point needs it.
	began time.Time
	// bounds are the upper ends of the buckets, as durations so that no call divides.
	bounds [buckets - 1]time.Duration
	lanes  [lanes]struct {
		verdicts [stepwell.Kinds]struct {
			counts [buckets]atomic.Uint64
			sum    atomic.Int64 // nanoseconds
		}
		_ [64]byte // no cache line in common with the next
	}
	// attributes are those of the points by verdict; stream is those of what has no verdict.
	attributes [stepwell.Kinds]attribute.Set
	stream     attribute.Set
	failed     *failed
}

func newDurations(attributes [stepwell.Kinds]attribute.Set, stream attribute.Set, f *failed) *durations {
	d := &durations{began: time.Now(), attributes: attributes, stream: stream, failed: f}
	for i, seconds := range boundaries() {
		d.bounds[i] = time.Duration(seconds * float64(time.Second))
	}
	return d
}

// record notes n calls that took so long each.
func (d *durations) record(lane, n int, took time.Duration, verdict stepwell.Kind) {
	bucket := d.bucket(took)
	at := &d.lanes[uint(lane)%lanes].verdicts[verdict]
	at.counts[bucket].Add(uint64(n))
	at.sum.Add(int64(n) * int64(took))
}

// bucket is found from below: most calls are fast.
func (d *durations) bucket(took time.Duration) (bucket int) {
	for bucket < len(d.bounds) && took > d.bounds[bucket] {
		bucket++
	}
	return bucket
}

// points are one for each verdict that is no failure, and one for each failed verdict and type of
// error that there was. A call that ends just now may be in the counts and not yet in the sum.
func (d *durations) points() (all []metricdata.HistogramDataPoint[float64]) {
	for v := stepwell.Done; v < stepwell.Kinds; v++ {
		if failure(v) {
			continue
		}
		p := metricdata.HistogramDataPoint[float64]{
			Attributes: d.attributes[v], StartTime: d.began, Time: time.Now(),
			Bounds: boundaries(), BucketCounts: make([]uint64, buckets),
		}
		var sum time.Duration
		for i := range d.lanes {
			at := &d.lanes[i].verdicts[v]
			sum += time.Duration(at.sum.Load())
			for b := range at.counts {
				n := at.counts[b].Load()
				p.BucketCounts[b] += n
				p.Count += n
			}
		}
		p.Sum = sum.Seconds()
		all = append(all, p)
	}
	return append(all, d.failed.points(d.began)...)
}

// skipped is how many calls skipped their message.
func (d *durations) skipped() metricdata.DataPoint[int64] {
	p := metricdata.DataPoint[int64]{Attributes: d.stream, StartTime: d.began, Time: time.Now()}
	for i := range d.lanes {
		counts := &d.lanes[i].verdicts[stepwell.Skipped].counts
		for b := range counts {
			p.Value += int64(counts[b].Load())
		}
	}
	return p
}

// producer gives the durations of all streams to the exporter.
type producer struct {
	mu      sync.Mutex
	streams []*durations
}

var _ sdkmetric.Producer = (*producer)(nil)

func (p *producer) add(d *durations) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.streams = append(p.streams, d)
}

// Produce is called when the metrics are asked for.
func (p *producer) Produce(context.Context) ([]metricdata.ScopeMetrics, error) {
	p.mu.Lock()
	streams := slices.Clone(p.streams)
	p.mu.Unlock()
	h := metricdata.Histogram[float64]{Temporality: metricdata.CumulativeTemporality}
	skipped := metricdata.Sum[int64]{Temporality: metricdata.CumulativeTemporality, IsMonotonic: true}
	for _, d := range streams {
		h.DataPoints = append(h.DataPoints, d.points()...)
		skipped.DataPoints = append(skipped.DataPoints, d.skipped())
	}
	var conv messagingconv.ProcessDuration
	var all []metricdata.Metrics
	if len(h.DataPoints) > 0 {
		all = append(all, metricdata.Metrics{Name: conv.Name(), Description: conv.Description(), Unit: conv.Unit(), Data: h})
	}
	if len(skipped.DataPoints) > 0 {
		all = append(all, metricdata.Metrics{Name: skippedName, Description: skippedWhat, Unit: "{message}", Data: skipped})
	}
	return []metricdata.ScopeMetrics{{Scope: instrumentation.Scope{Name: scope}, Metrics: all}}, nil
}
