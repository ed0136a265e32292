package deadset_test

import (
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/deadset"
	"github.com/stepwell/stepwell/embedded/memory"
	"github.com/stepwell/stepwell/internal/envelope"
)

func TestAReplayLeavesOutWhatKilledTheProcessUnlessAsked(t *testing.T) {
	inBubble(t, func(t *testing.T, b *memory.Broker, s *deadset.Set) {
		for i, reason := range []string{"crash_loop", "crash_loop", "exhausted", "crash_loop", "exhausted", "exhausted"} {
			e := envelope.Envelope{
				App: "a", DiedAt: time.Now(), Failure: envelope.Failure{Reason: reason, At: time.Now()},
				Message: stepwell.Message{ID: string(rune('a' + i)), Stream: "s", Value: []byte{byte('0' + i)}, Attempt: 1, Origin: stepwell.Origin{Topic: "t", Offset: int64(i)}},
			}
			put(t, b, dead, e.Encode())
		}
		for _, step := range []struct {
			name  string
			do    func() (deadset.Result, error)
			want  deadset.Result
			shows string
		}{
			{"the oldest that are harmless", func() (deadset.Result, error) { return s.Replay(t.Context(), 2) },
				deadset.Result{Requested: 2, Done: 2, Left: 4, LeftOut: 3}, "0 1 3 5"},
			{"all that are", func() (deadset.Result, error) { return s.Replay(t.Context(), 10) },
				deadset.Result{Requested: 10, Done: 1, Left: 3, LeftOut: 3}, "0 1 3"},
			{"none is left", func() (deadset.Result, error) { return s.Replay(t.Context(), 10) },
				deadset.Result{Requested: 10, Left: 3, LeftOut: 3}, "0 1 3"},
			{"asked for", func() (deadset.Result, error) { return s.ReplayAll(t.Context(), 2) },
				deadset.Result{Requested: 2, Done: 2, Left: 1}, "3"},
			{"a delete takes them as they come", func() (deadset.Result, error) { return s.Delete(t.Context(), 2) },
				deadset.Result{Requested: 2, Done: 1}, ""},
		} {
			if got, err := step.do(); err != nil || got != step.want {
				t.Errorf("%s: %+v %v, want %+v", step.name, got, err, step.want)
			}
			if shows := peek(t, s, 10); shows != step.shows {
				t.Errorf("%s: then it shows %q, want %q", step.name, shows, step.shows)
			}
		}
	})
}
