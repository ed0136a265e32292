package deadset

import (
	"context"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/envelope"
)

// Source has the records themselves, where they came from.
type Source interface {
	// Record reads the record at a position: key, value, headers and time. found is false, without
	// an error, where it is no more. An error means that it cannot be read now.
	Record(ctx context.Context, at stepwell.Origin) (m stepwell.Message, found bool, err error)
}

// resolveTime is how long one peek reads values from Kafka.
const resolveTime = 10 * time.Second

// pointed is an entry of a page whose value is only in Kafka.
type pointed struct {
	at       int // in the page
	envelope *envelope.Envelope
}

// resolve shows the values that are only in Kafka, one after another, as many as fit the time and
// the bytes of a walk. The lease is given back meanwhile: a replay need not wait for Kafka.
func (s *Set) resolve(ctx context.Context, page *Page) {
	ctx, cancel := context.WithTimeout(ctx, resolveTime)
	defer cancel()
	left := s.cfg.WalkBytes
	for _, p := range page.pointers {
		entry := &page.Messages[p.at]
		switch {
		case s.cfg.Source == nil:
			entry.ValueError = "the value is only in Kafka, and nothing here reads it"
		case left <= 0 || ctx.Err() != nil:
			entry.ValueError = "the value is only in Kafka and was not read, since there are too many such messages in one answer"
		default:
			left -= s.show(ctx, p.envelope, entry)
		}
	}
	page.pointers = nil
}

// show shows what Kafka has of the pointer's record, and returns how many bytes that takes.
func (s *Set) show(ctx context.Context, e *envelope.Envelope, entry *Entry) int {
	record, found, err := s.cfg.Source.Record(ctx, e.Message.Origin)
	switch {
	case err != nil:
		entry.ValueError = "the value is only in Kafka, which cannot be read now: " + text(err.Error())
		return 0
	case !found:
		entry.ValueError = "Kafka no longer has the record"
		return 0
	case !e.Restore(&record):
		entry.ValueError = "Kafka no longer has the record: there is another one at its offset"
		return 0
	}
	entry.record(&e.Message)
	size := len(e.Message.Key) + min(len(e.Message.Value), maxShown)
	for _, h := range e.Message.Headers {
		size += len(h.Key) + min(len(h.Value), maxShown)
	}
	return size
}
