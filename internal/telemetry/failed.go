package telemetry

import (
	"context"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/stepwell/stepwell"
)

// maxTypes is how many types of errors a stream's histogram tells apart, for each verdict; what
// comes later is _OTHER.
const maxTypes = 32

// failed are the calls of one stream that failed, by verdict and type of error.
type failed struct {
	// base are the attributes that all of them have.
	base []attribute.KeyValue
	// mu guards kinds and all that is in it. Failures are rare enough for one lock.
	mu sync.Mutex
	// kinds are by verdict, and then by type of error; nil: none of that verdict failed yet.
	kinds [stepwell.Kinds]map[string]*failedKind
}

// failedKind is those of one verdict and type.
type failedKind struct {
	attributes attribute.Set
	// record is used where the user's provider takes the metrics, counts and sum elsewhere.
	record []metric.RecordOption
	counts [buckets]uint64
	sum    time.Duration
}

// failure says whether calls with this verdict are told apart by the type of their error.
func failure(verdict stepwell.Kind) bool {
	return verdict == stepwell.Retry || verdict == stepwell.Dead
}

// of is for calls with this verdict and type of error.
func (f *failed) of(verdict stepwell.Kind, kind string) *failedKind {
	all := f.kinds[verdict]
	if all == nil {
		all = map[string]*failedKind{}
		f.kinds[verdict] = all
	}
	if k := all[kind]; k != nil {
		return k
	}
	if len(all) >= maxTypes {
		// An error's type may come from anywhere, and each is a time series for good.
		kind = ""
		if k := all[kind]; k != nil {
			return k
		}
	}
	set := attribute.NewSet(append(slices.Clip(f.base), attribute.String("stepwell.verdict", verdict.String()), errorType(kind))...)
	all[kind] = &failedKind{attributes: set, record: []metric.RecordOption{metric.WithAttributeSet(set)}}
	return all[kind]
}

// Failed counts a call that failed, by the type of its error.
func (s *Stream) Failed(ctx context.Context, d time.Duration, verdict stepwell.Kind, kind string) {
	if s == nil {
		return
	}
	s.failed.mu.Lock()
	defer s.failed.mu.Unlock()
	k := s.failed.of(verdict, kind)
	if s.durations == nil {
		s.i.process.Record(ctx, d.Seconds(), k.record...)
		return
	}
	k.counts[s.durations.bucket(d)]++
	k.sum += d
}

// points are what Prometheus is shown of the failures: one for each verdict and type of error.
func (f *failed) points(began time.Time) (all []metricdata.HistogramDataPoint[float64]) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, kinds := range f.kinds {
		for _, k := range kinds {
			p := metricdata.HistogramDataPoint[float64]{
				Attributes: k.attributes, StartTime: began, Time: time.Now(),
				Bounds: boundaries(), BucketCounts: slices.Clone(k.counts[:]), Sum: k.sum.Seconds(),
			}
			for _, n := range k.counts {
				p.Count += n
			}
			all = append(all, p)
		}
	}
	return all
}
