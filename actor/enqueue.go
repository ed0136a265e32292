package actor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/config"
	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/spelling"
)

// ErrRefused is wrapped by the errors of [Env.Enqueue] that no other try can help, as for a message
// that is too large: nothing was published.
var ErrRefused = errors.New("refused")

// ErrRetired is wrapped beside [ErrRefused] where the stream is retired: it takes nothing more from
// anybody but its own handlers.
var ErrRetired = errors.New("it is retired")

// ErrTooLarge is wrapped beside [ErrRefused] where a message has more bytes than are taken.
var ErrTooLarge = errors.New("it is too large")

// Enqueue stores a message for a stream that is [Stream].Enqueued, in this process or another, and
// waits until RabbitMQ has confirmed it: nil means that the message is safe, and is handled once
// after is over. It comes never earlier, and later by at most a tenth, or a second where that is
// more, as long as somebody works the stream's queue off, but for the first waits after a queue is
// made: 2 s more in each process. An error means that the message may be stored, or may not, and so
// may be handled twice if it is enqueued again; of one that wraps [ErrRefused] nothing is stored.
//
// Of m the fields ID, Key, Value, Headers and Time count. Without an ID it gets a random one, and
// without a Time the present. The ID, of at most 255 bytes, is the caller's: the same one twice is
// two jobs, of which a handler can see that they are one. Key, Value and Headers may have so many
// bytes together that 64 KiB are left to RABBITMQ_MAX_MESSAGE_SIZE: what is in no log must never be
// too large for the next queue; a larger one gets [ErrTooLarge]. after is at most
// [stepwell.LongestWait]; 0: at once.
//
// A stream that is retired (STREAMS_<ID>_RETIRED) takes nothing more, but what its own handlers, or
// those of its channels, or their OnDead, enqueue into it: that is the rest of its work. They are
// known by ctx, which must be that of the call, or made from it. Others get [ErrRetired].
//
// It goes on until ctx ends, however long RabbitMQ is away. It may be called from any goroutine,
// from the start function on and until the stop function has returned.
func (e *Env) Enqueue(ctx context.Context, stream string, m stepwell.Message, after time.Duration) error {
	if e.jobs == nil {
		return errors.New("enqueue: an Env that no actor made")
	}
	if err := e.jobs.enqueue(ctx, stream, &m, after); err != nil {
		return fmt.Errorf("enqueue into stream %q: %w", stream, err)
	}
	return nil
}

// jobs are the streams that are enqueued into.
type jobs struct {
	streams map[string]*stream // all, by id
	// most is how large a message may be; setting names what that follows from.
	most    int
	setting string
}

func newJobs(cfg *config.Config, streams []*stream) *jobs {
	j := &jobs{
		streams: map[string]*stream{},
		most:    cfg.RabbitMQ.MaxMessageSize - envelope.MaxHeaders, setting: cfg.Variable("rabbitmq.max_message_size"),
	}
	for _, s := range streams {
		j.streams[s.id] = s
	}
	return j
}

func (j *jobs) enqueue(ctx context.Context, id string, m *stepwell.Message, after time.Duration) error {
	s, err := j.stream(ctx, id)
	if err == nil {
		err = j.check(m, after)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	if m.Time.IsZero() {
		m.Time = time.Now()
	}
	trace := s.telemetry.Trace(ctx)
	err = s.dispatch.retrier.Enqueue(ctx, m, after, trace.Parent, trace.State)
	switch {
	case errors.Is(err, queue.ErrTooLarge): // the broker itself takes less than the setting says
		return fmt.Errorf("%w: %w: %w", ErrRefused, ErrTooLarge, err)
	case errors.Is(err, queue.ErrUnavailable): // which says why
		return fmt.Errorf("not known to be stored: %w", err)
	case err != nil:
		return fmt.Errorf("not known to be stored%s: %w", away(s.broker.Status()), err)
	}
	return nil
}

// away says why nothing is stored now; empty: nobody knows.
func away(s queue.Status) string {
	switch {
	case !s.Up:
		return ", since RabbitMQ is away (" + s.Detail + ")"
	case s.Blocked:
		return ", since RabbitMQ takes nothing (" + s.Detail + ")"
	}
	return ""
}

// stream finds the stream that is meant; ctx tells whose call this is, where that counts.
func (j *jobs) stream(ctx context.Context, id string) (*stream, error) {
	s := j.streams[id]
	switch {
	case s == nil:
		all := slices.Sorted(maps.Keys(j.streams))
		return nil, fmt.Errorf("there is no such stream; the streams are: %s%s", strings.Join(all, ", "), spelling.Meant(id, all))
	case s.cfg.Queue != "":
		return nil, fmt.Errorf("its messages are those of queue %s: publish to that", s.cfg.Queue)
	case s.cfg.Exchange != "":
		return nil, fmt.Errorf("its messages are those of exchange %s: publish to that", s.cfg.Exchange)
	case !s.enqueued:
		return nil, errors.New("it reads Kafka: produce to its topic; what is enqueued needs a stream that has no topics and is Enqueued")
	case s.cfg.Retired && ctx.Value(retiredStream{}) != s:
		return nil, fmt.Errorf("%w: what it has is worked off, and nothing is added but by its own handlers, with the context of their call", ErrRetired)
	}
	return s, nil
}

// check refuses what can never be stored, or not for as long as its failures may take.
func (j *jobs) check(m *stepwell.Message, after time.Duration) error {
	const longestID = 255 // bytes, of an AMQP message-id
	size := envelope.RecordSize(m)
	switch {
	case after < 0:
		return fmt.Errorf("a wait of %s: it cannot be below 0", after)
	case after > stepwell.LongestWait:
		return fmt.Errorf("a wait of %s: at most %s", after, stepwell.LongestWait)
	case len(m.ID) > longestID:
		return fmt.Errorf("an ID of %d bytes: at most %d", len(m.ID), longestID)
	case size > j.most:
		return fmt.Errorf("%w: key, headers and value take %d bytes: at most %d, which is 64 KiB below %s, so that what a failure adds has room", ErrTooLarge, size, j.most, j.setting)
	}
	return nil
}
