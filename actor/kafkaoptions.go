package actor

import (
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell/config"
	"github.com/stepwell/stepwell/internal/call"
	"github.com/stepwell/stepwell/internal/reserved"
	"github.com/stepwell/stepwell/streams"
)

// checkKafka returns an error that names each option of App.Kafka which would break a promise, as
// auto-commit does, each on a line of its own. Nothing is connected.
func (app App) checkKafka(cfg *config.Config) error {
	if app.Kafka == nil {
		return nil
	}
	var errs []error
	for _, id := range slices.Sorted(maps.Keys(app.Streams)) {
		if cfg.HasTopics(id) {
			errs = append(errs, inKafka("of stream "+id, app.askKafka(id, func(opts []kgo.Opt) error { return streams.CheckOptions(cfg.Variable, opts) })))
		}
	}
	return errors.Join(append(errs, inKafka("for Env.Produce", app.askKafka("", checkProducer)))...)
}

// askKafka has options looked at. A panic of who makes them is a mistake, on a line.
func (app App) askKafka(id string, check func([]kgo.Opt) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %s, at %s", call.TextOf(p), thrownAt())
		}
	}()
	return check(app.Kafka(id))
}

// thrownAt is where the panic began that the deferred function which asks has caught.
func thrownAt() string {
	for skip := 2; ; skip++ {
		pc, file, line, ok := runtime.Caller(skip)
		if !ok || !strings.HasPrefix(runtime.FuncForPC(pc).Name(), "runtime.") {
			return fmt.Sprintf("%s:%d", file, line)
		}
	}
}

// inKafka says of each of errors that were joined which options are meant.
func inKafka(of string, err error) error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return fmt.Errorf("App.Kafka %s: %w", of, err)
	}
	var each []error
	for _, one := range joined.Unwrap() {
		each = append(each, fmt.Errorf("App.Kafka %s: %w", of, one))
	}
	return errors.Join(each...)
}

// ofProducer are options that would break what Env.Produce promises, beside the acks.
func ofProducer() []reserved.Option {
	const (
		stored   = "Produce stores a record once within a call"
		untilCtx = "Produce goes on until its context ends, which bounds it"
	)
	return []reserved.Option{
		{Name: "DisableIdempotentWrite", Option: kgo.DisableIdempotentWrite, Why: stored},
		{Name: "AllowIdempotentProduceCancellation", Option: kgo.AllowIdempotentProduceCancellation, Why: stored},
		{Name: "RecordRetries", Option: kgo.RecordRetries, Why: untilCtx},
		{Name: "RecordDeliveryTimeout", Option: kgo.RecordDeliveryTimeout, Why: untilCtx},
		{Name: "StopProducerOnDataLossDetected", Option: kgo.StopProducerOnDataLossDetected, Why: "no Produce after it would write anything"},
		{Name: "ManualFlushing", Option: kgo.ManualFlushing, Why: "Produce waits for what it writes, and nobody flushes"},
		{Name: "TransactionalID", Option: kgo.TransactionalID, Why: "Produce writes without transactions, and nobody begins one"},
	}
}

// checkProducer returns an error that names each option which the client of Env.Produce does not
// leave to others.
func checkProducer(opts []kgo.Opt) error {
	if len(opts) == 0 {
		return nil
	}
	// A client takes other acks only where it is not idempotent, and its own error names no option:
	// they are looked at in one that is not, and all else in one that waits for all.
	found, err := reserved.Find(ofProducer(), nil, slices.Concat(opts, []kgo.Opt{kgo.RequiredAcks(kgo.AllISRAcks())}))
	if err != nil {
		return err
	}
	acks := []reserved.Option{{Name: "RequiredAcks", Option: kgo.RequiredAcks, Why: "nil means that all in-sync replicas have the record"}}
	other, err := reserved.Find(acks, []kgo.Opt{kgo.DisableIdempotentWrite()}, opts)
	if err != nil && len(found) == 0 {
		return err
	}
	return errors.Join(append(found, other...)...)
}
