package actor

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell/config"
	"github.com/stepwell/stepwell/retry"
)

// An error's type may come from anywhere.
func TestWhereErrorsAreOfEverNewTypesTheyShareALineAndAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		enabled := true
		var log strings.Builder
		var how config.Stream
		how.Retry.Enabled = &enabled
		l := newFailureLog(slog.New(slog.NewTextHandler(&log, nil)), config.Log{}, how, make(chan struct{}, 1))
		die := func(kind int) {
			for _, reason := range []string{"exhausted", "dead_letter"} {
				l.died(retry.Death{ID: "a", Reason: reason, ErrorType: fmt.Sprint(kind)})
			}
		}
		for kind := range 1000 {
			die(kind)
		}
		if n := len(l.topics); n != maxTopics+2 {
			t.Errorf("%d topics at once", n)
		}
		l.died(retry.Death{ID: "b", Reason: "exhausted", ErrorType: "panic"})
		if !strings.Contains(log.String(), "error_type=panic") {
			t.Error("a panic shares the line of errors")
		}
		time.Sleep(lossPause)
		l.tell(time.Time{})
		time.Sleep(lossPause)
		die(1000)
		if n := len(l.topics); n != 2 {
			t.Errorf("%d topics after a pause", n)
		}
	})
}
