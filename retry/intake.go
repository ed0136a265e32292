package retry

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/inbox"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/task"
)

// Intake works a queue of somebody else's off: its messages are those of the Retrier's handler, at
// their first try, and go where all failures go.
//
// A message that the queue handed out before goes to the instant queue first, unchanged, and is
// called from there: the queue may count no returns (a classic one does not), so that a message
// that kills the process would never be found, or bear few of them.
type Intake struct {
	*inbox.Inbox
	parking *parking
}

// Intake makes one. seats are those of first tries. gather is for a handle that gathers messages
// and takes the seats itself, for many at once; nil: it handles one at a time. It connects nowhere.
func (r *Retrier) Intake(name string, seats inbox.Seats, gather *inbox.Gather) *Intake {
	cfg := r.cfg
	owner := stranger{parking: r.parking, queue: name, stream: cfg.Stream}
	of := inbox.Config{
		Queue: name, Foreign: true,
		Broker: cfg.Broker, Publisher: r.parking.publisher, Owner: owner, Divert: owner.divert,
		// Its lanes are those that a source of the line has: the first ones.
		Workers: cfg.Workers, Seats: seats, Prefetch: cfg.Prefetch,
		HandlerTimeout: cfg.HandlerTimeout, Grace: cfg.Grace,
		Trouble: r.trouble, Ended: cfg.Ended, Logger: cfg.Logger,
	}
	if gather != nil { // one worker is enough, and measures nothing
		of.Gather, of.Workers, of.Seats, of.Ended = gather, 1, nil, nil
	}
	return &Intake{inbox.New(of), r.parking}
}

// Run calls handle for each message of the queue, until stop ends; else it is as [Retrier.Run]. It
// waits for a queue that is missing.
func (i *Intake) Run(stop, work context.Context, handle Handle) error {
	return i.Inbox.Run(stop, work, func(ctx context.Context, m *stepwell.Message, t inbox.Ticket) task.Outcome {
		return handle(ctx, m, Ticket{t, i.parking})
	})
}

// stranger is the [inbox.Owner] of a queue whose messages somebody else publishes.
type stranger struct {
	*parking
	queue, stream string
}

// divert sends what came back to the instant queue: see [Intake].
func (s stranger) divert(_ context.Context, d queue.Delivery) (to string, m queue.Message, came bool) {
	if !d.Redelivered {
		return "", queue.Message{}, false
	}
	const sure = 64 << 10 // bytes, which fit with all that is added: RABBITMQ_MAX_MESSAGE_SIZE is 72 KiB at least
	e := s.read(d)
	// It is published but once: what may be too large otherwise goes compressed.
	e.Compressed = len(d.Body) > sure
	return s.topology.Instant, e.Encode(), true
}

// Decode takes any message: what is in it is the handler's.
func (s stranger) Decode(d queue.Delivery) (*envelope.Envelope, error) { return s.read(d), nil }

// Complete has nothing to fetch.
func (stranger) Complete(context.Context, *envelope.Envelope) (reason string, err error) {
	return "", nil
}

// read makes an envelope of a stranger's message. Producers give two messages one id: they are told
// apart by the token that Encode gives each. None of its properties is published again as one,
// since an expiration, a CC or a user-id would expire, copy or refuse what is parked: they are
// headers of the message from here on, before its own.
func (s stranger) read(d queue.Delivery) *envelope.Envelope {
	both := &struct { // one allocation
		envelope.Envelope
		from stepwell.QueueOrigin
	}{from: stepwell.QueueOrigin{Name: s.queue, Exchange: d.Foreign.Exchange, RoutingKey: d.Foreign.RoutingKey}}
	e := &both.Envelope
	e.Message = stepwell.Message{
		ID: d.ID, Stream: s.stream, Value: d.Body, Time: d.Foreign.Time, Attempt: 1, Origin: stepwell.Origin{Queue: &both.from},
	}
	m := &e.Message
	if m.ID == "" {
		e.Token = envelope.NewToken()
		m.ID = envelope.InQueue(s.queue, e.Token)
	}
	if year := m.Time.UTC().Year(); m.Time.IsZero() || year < 0 || year > 9999 {
		m.Time = time.Now() // what its producer wrote stays in the header
	}
	if m.Value == nil {
		m.Value = []byte{}
	}
	m.Headers = make([]stepwell.Header, 0, len(d.Foreign.Properties)+len(d.Headers))
	for _, p := range d.Foreign.Properties {
		m.Headers = append(m.Headers, stepwell.Header{Key: p.Name, Value: []byte(p.Value)})
	}
	if len(d.Headers) == 0 {
		return e
	}
	for _, name := range slices.Sorted(maps.Keys(d.Headers)) { // AMQP has them in no order
		m.Headers = append(m.Headers, stepwell.Header{Key: name, Value: plain(d.Headers[name])})
	}
	return e
}

// plain is a header's value in bytes: text and bytes as they are, all else as JSON.
func plain(value any) []byte {
	switch v := value.(type) {
	case nil:
		return nil
	case string:
		return []byte(v)
	case []byte:
		return v
	}
	text, err := json.Marshal(value)
	if err != nil { // a number that JSON cannot say, or a year
		return fmt.Append(nil, value)
	}
	return text
}
