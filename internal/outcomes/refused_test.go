package outcomes

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell/internal/records"
)

// refusing is a log that has no room for what one operation tells.
type refusing struct{ written []string }

func (l *refusing) Change(_ context.Context, kind, name string, change func(records.Record) (records.Record, error)) error {
	if strings.HasPrefix(name, "op_new/") {
		return fmt.Errorf("%w: there is no room", records.ErrRefused)
	}
	_, err := change(records.Record{Kind: kind, Name: name})
	l.written = append(l.written, name)
	return err
}

func (l *refusing) All(string) ([]records.Record, error) { return nil, nil }

func TestWhatIsRefusedOfOneOperationKeepsNoOtherFromBeingTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &refusing{}
		b := New(log, "a", nil)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); _ = b.Run(ctx) }()
		b.Tell(Event{Operation: "op_new", Attempt: 1, Kind: Handled})
		b.Tell(Event{Operation: "op_old", Attempt: 1, Kind: Handled})
		time.Sleep(time.Hour)
		cancel()
		<-ended
		if !slices.Contains(log.written, "op_old/a") {
			t.Errorf("nothing of op_old is told for an hour: %v", log.written)
		}
	})
}

// What is told once more of an operation that was forgotten for others must not undo what was told.
func TestWhatIsToldAgainOfAForgottenOperationDoesNotTakeBackWhatWasTold(t *testing.T) {
	processes(t, func(t *testing.T, one, other *Book, _ func()) {
		for range 5 {
			one.Tell(Event{Operation: op, Attempt: 1, Kind: Failed})
		}
		time.Sleep(2 * tellEvery)
		for i := range maxPages {
			one.Tell(Event{Operation: fmt.Sprint("op_x", i), Attempt: 1, Kind: Handled})
		}
		time.Sleep(2 * tellEvery)
		one.Tell(Event{Operation: op, Attempt: 1, Kind: Failed})
		time.Sleep(2 * tellEvery)
		if got := of(t, other); got.Failed != 6 {
			t.Errorf("%+v", got)
		}
	})
}
