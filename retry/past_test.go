package retry_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/retry"
)

func TestTriesBeforeTheFirstQueueAreInTheEnvelope(t *testing.T) {
	for _, tries := range []int{0, 1, 3, 25} {
		t.Run(fmt.Sprint(tries), func(t *testing.T) {
			inWorld(t, retry.Linear(s, 0, tries), func(w *world) {
				var past retry.Past
				m := record("x")
				for i := range tries {
					time.Sleep(s)
					past.Failed(i+1, retry.Failure{Err: fmt.Errorf("try %d: %s", i+1, strings.Repeat("€", 1000)), At: time.Now(), TraceParent: fmt.Sprintf("00-%d", i+1)})
				}
				time.Sleep(s)
				m.Attempt = tries + 1
				parked := make(chan error, 1)
				w.retrier.Fail(w.t.Context(), m, &past, retry.Failure{Err: errAway, TraceParent: "00-later"}, func(err error) { parked <- err })
				if err := <-parked; err != nil {
					w.t.Fatal(err)
				}
				e := w.oneDead()
				if e.AttemptsTotal != tries+1 || e.Message.Attempt != tries+1 || len(e.History) != min(envelope.MaxHistory, tries+1) {
					t.Errorf("%d tries in all, attempt %d, %d in the history", e.AttemptsTotal, e.Message.Attempt, len(e.History))
				}
				for i, try := range e.History {
					if want := tries + 2 - len(e.History) + i; try.Attempt != want || want <= tries && !strings.HasPrefix(try.Error, fmt.Sprintf("try %d: €", want)) {
						t.Errorf("the history has attempt %d, %q, where %d belongs", try.Attempt, try.Error, want)
					}
				}
				if tries > 0 && e.TraceParent != "00-1" || tries == 0 && e.TraceParent != "00-later" {
					t.Errorf("the trace of the first try is %q", e.TraceParent)
				}
			})
		})
	}
}
