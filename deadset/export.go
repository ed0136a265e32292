package deadset

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/stepwell/stepwell/internal/filter"
)

// Export is what a look found, to be kept elsewhere: keys, values and headers are whole.
type Export struct {
	Span
	// Matched is how many messages there are in it.
	Matched int

	messages []found
	values   values
}

// exportTime is for how long an export reads values from Kafka.
const exportTime = time.Minute

// Export finds the messages for which the filter is true, oldest first. It looks at no more of the
// dead set than a walk holds, which the Span says, and gives them back at once, as a peek does:
// what is slow to write holds nobody up. It keeps their bytes. The error is as that of Peek.
func (s *Set) Export(ctx context.Context, of filter.Filter) (Export, error) {
	v, err := s.survey(ctx)
	if err != nil {
		return Export{}, err
	}
	x := Export{Span: v.Span, values: s.values}
	for _, f := range v.all {
		if f.isTrue(of) {
			x.messages = append(x.messages, f)
		}
	}
	x.Matched = len(x.messages)
	return x, nil
}

// Each calls do with one message after the other, until all are done, or do or ctx has an error. A
// value that is only in Kafka is read when its turn comes; where it cannot be read within a minute
// of all, its ValueError says so, and the others follow.
func (x Export) Each(ctx context.Context, do func(Entry) error) error {
	reading, cancel := context.WithTimeout(ctx, exportTime)
	defer cancel()
	for _, f := range x.messages {
		if ctx.Err() != nil {
			return fmt.Errorf("export: %w", context.Cause(ctx))
		}
		entry := f.show(math.MaxInt)
		switch {
		case !f.envelope.Pointer:
		case reading.Err() != nil:
			entry.ValueError = "the value is only in Kafka and was not read, since there was no time left"
		default:
			m, why := x.values.fetch(reading, f.envelope)
			if entry.ValueError = why; m != nil {
				entry.record(m, math.MaxInt)
			}
		}
		if err := do(entry); err != nil {
			return err
		}
	}
	return nil
}
