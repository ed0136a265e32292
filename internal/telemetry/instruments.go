package telemetry

import (
	"errors"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/semconv/v1.43.0/messagingconv"
)

const (
	skippedName = "stepwell.messages.skipped"
	skippedWhat = "Messages that a handler skipped on purpose."
)

// instruments are what is exported under a name each. skipped is used only where the user's
// provider takes the metrics; durations stands for it and for process elsewhere.
type instruments struct {
	meter     metric.Meter
	process   metric.Float64Histogram
	operation metric.Float64Histogram
	consumed  metric.Int64Counter
	sent      metric.Int64Counter
	enqueued  metric.Int64Counter
	retries   metric.Int64Counter
	inPlace   metric.Int64Counter
	// orderGivenUp counts messages that were to rest in place.
	orderGivenUp metric.Int64Counter
	died         metric.Int64Counter
	duplicate    metric.Int64Counter
	lost         metric.Int64Counter
	expired      metric.Int64Counter
	dropped      metric.Int64Counter
	skipped      metric.Int64Counter
	fallback     metric.Int64Counter
	replayed     metric.Int64Counter
	deleted      metric.Int64Counter
}

// boundaries of handler durations in seconds: from what a function in memory takes to what a slow
// service does.
func boundaries() []float64 {
	return []float64{0.00001, 0.0001, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300}
}

func newInstruments(m metric.Meter) (i instruments, err error) {
	i.meter = m
	var errs []error
	note := func(err error) { errs = append(errs, err) }
	process, err := messagingconv.NewProcessDuration(m, metric.WithExplicitBucketBoundaries(boundaries()...))
	note(err)
	i.process = process.Inst()
	operation, err := messagingconv.NewClientOperationDuration(m, metric.WithExplicitBucketBoundaries(boundaries()...))
	note(err)
	i.operation = operation.Inst()
	consumed, err := messagingconv.NewClientConsumedMessages(m)
	note(err)
	i.consumed = consumed.Inst()
	sent, err := messagingconv.NewClientSentMessages(m)
	note(err)
	i.sent = sent.Inst()
	for _, c := range []struct {
		to         *metric.Int64Counter
		name, what string
	}{
		{&i.enqueued, "stepwell.messages.enqueued", "Messages that the program itself enqueued into a stream."},
		{&i.retries, "stepwell.retries", "Failed messages that were stored to be tried again."},
		{&i.inPlace, "stepwell.retries.in_place", "Failed messages that rest in the process until they are tried again."},
		{&i.orderGivenUp, "stepwell.order_given_up", "Messages that were to rest in place, and go through the queues since their waits would be too long."},
		{&i.died, "stepwell.dead_set.died", "Messages that came to the dead set."},
		{&i.duplicate, "stepwell.duplicates", "Messages that were settled already and removed without a call."},
		{&i.lost, "stepwell.records.lost", "Records that Kafka deleted before they were read."},
		{&i.expired, "stepwell.records.expired", "Records skipped because they were older than their stream takes."},
		{&i.dropped, "stepwell.messages.dropped", "Failed messages dropped because their stream has no retries and drops them."},
		{&i.fallback, "stepwell.messages.fallback", "Messages that were taken over before they came to the dead set."},
		{&i.skipped, skippedName, skippedWhat},
		{&i.replayed, "stepwell.dead_set.replayed", "Messages replayed from the dead set."},
		{&i.deleted, "stepwell.dead_set.deleted", "Messages deleted from the dead set."},
	} {
		*c.to, err = m.Int64Counter(c.name, metric.WithDescription(c.what), metric.WithUnit("{message}"))
		note(err)
	}
	return i, errors.Join(errs...)
}
