package operations

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"testing"
	"time"

	"github.com/stepwell/stepwell/internal/outcomes"
)

// noted is a request for what is done at once.
func noted() Request {
	return Request{Action: Edit, Target: orders, Select: Selection{IDs: []string{"a"}}, CreatedAt: time.Now().UTC().Round(0), By: "alice"}
}

func TestWhatIsDoneAtOnceIsOnRecordBeforeItIsDone(t *testing.T) {
	onEachStore(t, func(t *testing.T, s Store) {
		r := New(Config{Store: s, Name: "here", Logger: slog.New(slog.DiscardHandler)})
		for phase, why := range map[Phase]error{Done: nil, Refused: errors.New("no such message"), Failed: errors.New("nobody knows")} {
			o, err := r.Note(t.Context(), noted(), func(ctx context.Context, id string) (Phase, error) {
				// What a kill now leaves behind: it is over, and nobody goes on with it.
				if now, err := s.Load(ctx, id); err != nil || now.Phase != Failed || now.Why != cutOff || r.isNeeded() {
					t.Errorf("%+v, %v", now, err)
				}
				return phase, why
			})
			if !errors.Is(err, why) || o.Phase != phase || o.Done != map[bool]int{true: 1}[why == nil] || o.Why != map[bool]string{false: fmt.Sprint(why)}[why == nil] {
				t.Errorf("%+v, %v", o, err)
			}
			if kept, err := r.Find(t.Context(), o.ID); err != nil || !reflect.DeepEqual(kept.State, o.State) || kept.Action != Edit || kept.Foreign || kept.Runner != "here" || kept.EndedAt.IsZero() {
				t.Errorf("%+v, kept %+v, %v", o, kept, err)
			}
		}
		if all, err := r.List(t.Context()); err != nil || len(all) != 3 {
			t.Errorf("%d, %v", len(all), err)
		}
	})
}

func TestWhatCannotBeOnRecordIsNotDone(t *testing.T) {
	away := New(Config{Store: nowhere{}})
	_, err := away.Note(t.Context(), noted(), func(context.Context, string) (Phase, error) {
		t.Error("it was done")
		return Done, nil
	})
	if !errors.Is(err, ErrAway) {
		t.Errorf("%v", err)
	}
}

// nowhere is a store that keeps nothing.
type nowhere struct{ Store }

func (nowhere) Create(context.Context, Request, State) error { return ErrAway }

// Also the caller who goes away does not undo what was done.
func TestWhatWasDoneIsOnRecordThoughItsCallerIsGone(t *testing.T) {
	onEachStore(t, func(t *testing.T, s Store) {
		r := New(Config{Store: s})
		ctx, leave := context.WithCancel(t.Context())
		o, err := r.Note(ctx, noted(), func(context.Context, string) (Phase, error) {
			leave()
			return Done, nil
		})
		if kept, lost := s.Load(t.Context(), o.ID); err != nil || lost != nil || kept.Phase != Done {
			t.Errorf("%+v, %v, %v", kept, err, lost)
		}
	})
}

func TestRecordsOfWhatIsDoneAtOnceAreBoundedAndKeepNobodyOut(t *testing.T) {
	s := NewMemory()
	r := New(Config{Store: s})
	for range MaxFinished + MaxWaiting + 1 {
		if _, err := r.Note(t.Context(), noted(), func(context.Context, string) (Phase, error) { return Done, nil }); err != nil {
			t.Fatal(err)
		}
	}
	if all, err := s.List(); err != nil || len(all) != MaxFinished {
		t.Errorf("%d are kept, %v", len(all), err)
	}
	if err := s.Create(t.Context(), Request{ID: "op_x"}, State{Phase: Queued}); err != nil {
		t.Errorf("%v", err)
	}
}

func TestARecordOfAnEditSaysWhatBecameOfItsCopy(t *testing.T) {
	r := New(Config{Store: NewMemory(), Outcomes: &told{tally: outcomes.Tally{Handled: 1}}})
	o, err := r.Note(t.Context(), noted(), func(context.Context, string) (Phase, error) { return Done, nil })
	if err != nil {
		t.Fatal(err)
	}
	if o, err = r.Find(t.Context(), o.ID); err != nil || o.Outcome == nil || o.Outcome.Handled != 1 || o.Outcome.Unknown != 0 {
		t.Errorf("%+v, %v", o.Outcome, err)
	}
}
