package actor

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/stepwell/stepwell/internal/outcomes"
	"github.com/stepwell/stepwell/internal/records"
)

// newOutcomes makes the book in which this process counts what becomes of replayed messages. Where
// the app shares nothing between its processes each knows of those alone that it handled itself.
func newOutcomes(shared *sharing, process uint32, log *slog.Logger) *outcomes.Book {
	var told outcomes.Log
	if shared != nil {
		told = outcomeLog{shared}
	}
	// An instance may be made anew under its name: what the one before told stays.
	return outcomes.New(told, fmt.Sprintf("%s-%08x", instance(), process), log)
}

// outcomeLog is what is shared, which is read once there is something to tell or to ask.
type outcomeLog struct{ *sharing }

// Change changes a record.
func (l outcomeLog) Change(ctx context.Context, kind, name string, change func(records.Record) (records.Record, error)) error {
	l.use()
	return l.store.Change(ctx, kind, name, change)
}

// All returns the records of a kind.
func (l outcomeLog) All(kind string) ([]records.Record, error) {
	l.use()
	return l.store.All(kind)
}
