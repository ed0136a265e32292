package actor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell/internal/telemetry"
)

// Produce writes records to Kafka and waits until it has them: nil means that each is stored in all
// in-sync replicas of its partition, so that a handler may return nil after it. An error means that
// one of them may not be stored, or may; a handler that returns it is called again, and writes all
// of them again.
//
// Writing goes on until ctx ends, whatever is wrong with the cluster; what can never succeed, as a
// topic that is not there or a record that is too large, is an error at once. Records of more than
// 1 MB are too large unless [App].Kafka sets kgo.ProducerBatchMaxBytes. Within one call a
// record is not stored twice (the producer is idempotent). What was under way when ctx ended may
// still be written: the bytes of key, value and headers are not to be changed after an error.
// Records without a header traceparent are written with that of ctx, where there are spans. After
// nil they say where they are. It may be called from any goroutine, from the start function on and
// until the stop function has returned.
func (e *Env) Produce(ctx context.Context, records ...*kgo.Record) error {
	if e.producer == nil {
		return errors.New("produce: an Env that no actor made")
	}
	return e.producer.produce(ctx, records)
}

// errProducerClosed is for who produces when the actor has stopped.
var errProducerClosed = errors.New("produce: the actor has stopped")

// producer writes what the user's functions produce. It has one client, which is made for the first
// record.
type producer struct {
	brokers Brokers
	options func() []kgo.Opt // of the client, beside what leads to the cluster
	measure *telemetry.Producer

	// mu guards the fields below.
	mu sync.Mutex
	// client is nil before the first record: most actors write none.
	client *kgo.Client
	closed bool
}

func (a *Actor) newProducer() *producer {
	return &producer{brokers: a.brokers, measure: a.telemetry.Producer(), options: func() []kgo.Opt {
		opts := []kgo.Opt{
			kgo.ClientID(a.cfg.Kafka.ClientID),
			kgo.ProducerLinger(0), // somebody waits for each record
			kgo.UnknownTopicRetries(1),
			kgo.DisableClientMetrics(),
		}
		if a.app.Kafka != nil {
			opts = append(opts, a.app.Kafka("")...)
		}
		// Last: nil means stored, whatever stands before. Other acks are refused at start, but an
		// app may give other options now.
		return append(opts, kgo.RequiredAcks(kgo.AllISRAcks()))
	}}
}

func (p *producer) produce(ctx context.Context, records []*kgo.Record) error {
	kafka, err := p.brokers.Kafka(ctx)
	if err != nil {
		return fmt.Errorf("produce: %w", err)
	}
	client, err := p.open(kafka)
	if err != nil {
		return err
	}
	carry, end := p.measure.Send(ctx, len(records))
	err = write(ctx, client, records, carry)
	if errors.Is(err, kerr.MessageTooLarge) { // it says that the server's limit is meant
		err = fmt.Errorf("%w; the client's own limit is %v bytes a batch: where the topic takes more (max.message.bytes), raise that by kgo.ProducerBatchMaxBytes in App.Kafka",
			err, client.OptValue(kgo.ProducerBatchMaxBytes))
	}
	end(err)
	return err
}

// write produces records and waits, but no longer than ctx lasts: the client does not give up what
// it has sent to a broker before that answers, and a broker that hangs does not. It works on copies
// for that reason.
func write(ctx context.Context, client *kgo.Client, records []*kgo.Record, carry map[string]string) error {
	written, copies := make(chan error, len(records)), make([]kgo.Record, len(records))
	for i, r := range records {
		copies[i] = *r
		addTrace(&copies[i], carry)
		client.Produce(ctx, &copies[i], func(r *kgo.Record, err error) {
			if err != nil { // Kafka's own text does not say which topic it has not
				err = fmt.Errorf("produce to topic %q: %w", r.Topic, err)
			}
			written <- err
		})
	}
	var failed error
	for range records {
		select {
		case err := <-written:
			failed = cmp.Or(failed, err)
		case <-ctx.Done():
			return cmp.Or(failed, fmt.Errorf("produce: not confirmed by Kafka: %w", ctx.Err()))
		}
	}
	if failed != nil {
		return failed
	}
	for i, r := range records { // where each is, for the caller
		headers, in := r.Headers, r.Context
		*r = copies[i]
		r.Headers, r.Context = headers, in
	}
	return nil
}

// open returns the client.
func (p *producer) open(kafka []kgo.Opt) (*kgo.Client, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errProducerClosed
	}
	if p.client == nil {
		client, err := kgo.NewClient(slices.Concat(kafka, p.options())...)
		if err != nil {
			return nil, fmt.Errorf("produce: %w", err)
		}
		p.client = client
	}
	return p.client, nil
}

// run closes the client when ctx ends. Who produces then is told so.
func (p *producer) run(ctx context.Context) error {
	<-ctx.Done()
	p.mu.Lock()
	client := p.client
	p.closed = true
	p.mu.Unlock()
	if client != nil {
		client.Close()
	}
	return nil
}

// addTrace leads from a record to the trace in which it was written, unless it says itself. The
// list of headers is a new one: the old one may be that of other records, too.
func addTrace(r *kgo.Record, carry map[string]string) {
	if slices.ContainsFunc(r.Headers, func(h kgo.RecordHeader) bool { return h.Key == "traceparent" }) {
		return
	}
	r.Headers = slices.Clip(r.Headers)
	for name, value := range carry {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
	}
}
