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

// values shows messages whose values may be only in Kafka.
type values struct {
	source Source // nil: nothing reads them
	bytes  int    // how much one answer may hold of them
}

// entries shows messages. Values that are only in Kafka are read there, one after another, as many
// as fit the time and the bytes of a walk. The lease is given back meanwhile: a replay need not
// wait for Kafka.
func (v values) entries(ctx context.Context, all []found) []Entry {
	ctx, cancel := context.WithTimeout(ctx, resolveTime)
	defer cancel()
	left := v.bytes
	shown := make([]Entry, 0, len(all))
	for _, f := range all {
		entry := f.entry()
		switch {
		case !f.envelope.Pointer:
		case left <= 0 || ctx.Err() != nil:
			entry.ValueError = "the value is only in Kafka and was not read, since there are too many such messages in one answer"
		default:
			m, why := v.fetch(ctx, f.envelope)
			if m == nil {
				entry.ValueError = why
				break
			}
			entry.record(m, maxShown)
			left -= sizeShown(m)
		}
		shown = append(shown, entry)
	}
	return shown
}

// fetch returns the pointer's record as Kafka has it; nil, and why, where it has not.
func (v values) fetch(ctx context.Context, e *envelope.Envelope) (m *stepwell.Message, why string) {
	if v.source == nil {
		return nil, "the value is only in Kafka, and nothing here reads it"
	}
	record, there, err := v.source.Record(ctx, e.Message.Origin)
	whole := *e // the envelope itself is shared
	switch {
	case err != nil:
		return nil, "the value is only in Kafka, which cannot be read now: " + text(err.Error())
	case !there:
		return nil, "Kafka no longer has the record"
	case !whole.Restore(&record):
		return nil, "Kafka no longer has the record: there is another one at its offset"
	}
	return &whole.Message, ""
}

// sizeShown is how many bytes an entry takes that shows the record.
func sizeShown(m *stepwell.Message) int {
	size := len(m.Key) + min(len(m.Value), maxShown)
	for _, h := range m.Headers {
		size += len(h.Key) + min(len(h.Value), maxShown)
	}
	return size
}
