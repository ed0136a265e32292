package actor_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
)

// What a person asks first of a dead message: which try took how long, where, with which version.
func TestADeadMessageTellsOfEachTryHowLongItTookAndWhere(t *testing.T) {
	for name, env := range map[string]settings{
		"through queues": {"RETRY_COUNT": "2", "RETRY_DELAY": "10ms", "SERVER_TRACE_URL": "https://traces.example.com/{trace_id}"},
		"in place":       {"RETRY_COUNT": "2", "RETRY_DELAY": "10ms", "RETRY_IN_PLACE": "1"},
	} {
		t.Run(name, func(t *testing.T) {
			everywhere(t, func(t *testing.T, w *world) {
				app := orders(func(ctx context.Context, m *stepwell.Message) error {
					select { // as long as a slow call takes: its duration is what is told
					case <-time.After(30 * time.Millisecond):
					case <-ctx.Done():
					}
					return fmt.Errorf("try %d: %w", m.Attempt, errors.ErrUnsupported)
				})
				app.Version = "v1.8"
				r := w.start(app, env)
				w.produce(numbered(1)...)
				id := fmt.Sprint(r.deadCount(1)[0]["id"])
				status, one := r.do("GET", "/v1/dead_set/messages/"+url.PathEscape(id)+"?stream=orders", "")
				tries, _ := one["tries"].([]any)
				if status != 200 || len(tries) != 3 {
					t.Fatalf("%d %v", status, one)
				}
				for i, of := range tries {
					try := of.(map[string]any)
					took, _ := try["duration_ms"].(float64)
					if try["attempt"] != float64(i+1) || try["error"] != fmt.Sprintf("try %d: unsupported operation", i+1) || try["error_type"] != "*errors.errorString" ||
						took < 25 || took > 60_000 || try["app_version"] != "v1.8" || try["instance"] == nil {
						t.Errorf("try %d: %v", i+1, try)
					}
				}
			})
		})
	}
}
