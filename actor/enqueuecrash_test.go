package actor_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
	"github.com/stepwell/stepwell/internal/testbroker"
)

const (
	// jobsVariable names the file to which an actor of role "jobs" appends what it did.
	jobsVariable = "STEPWELL_TEST_JOBS"
	// quietVariable has it enqueue nothing.
	quietVariable = "STEPWELL_TEST_QUIET"
)

// playJobs is an actor that enqueues until it is killed, from several goroutines. Each job that
// was confirmed is a line "confirmed name" in the file, each call one of "handled name".
func playJobs() {
	const writers = 4
	file, err := os.OpenFile(os.Getenv(jobsVariable), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		panic(err)
	}
	note := func(what string, value []byte) error {
		_, err := file.WriteString(what + " " + string(value) + "\n") // at once, so that lines stay whole
		return err
	}
	enqueue := func(env *actor.Env, writer int) {
		for i := 0; ; i++ {
			// All that a repeat is known by is the same, but for the token.
			name := fmt.Appendf(nil, "%d-%d-%d", os.Getpid(), writer, i)
			m := stepwell.Message{ID: "always the same", Time: time.UnixMilli(1), Headers: []stepwell.Header{{Key: "name", Value: name}}}
			after := time.Duration(i%2) * time.Second // every second one waits
			if env.Enqueue(context.Background(), "jobs", m, after) == nil {
				_ = note("confirmed", name)
			}
		}
	}
	actor.Main(actor.App{
		Start: func(_ context.Context, env *actor.Env) error {
			if os.Getenv(quietVariable) == "" {
				for writer := range writers {
					go enqueue(env, writer)
				}
			}
			return nil
		},
		Streams: actor.Streams{"jobs": {Enqueued: true, Handler: func(_ context.Context, m *stepwell.Message) error {
			name, _ := m.Header("name")
			return note("handled", name)
		}}},
	})
}

// jobsOf reads what actors of role "jobs" wrote: what was confirmed, and of this what nobody
// handled yet.
func jobsOf(t *testing.T, path string) (confirmed int, open []string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	handled, all := map[string]bool{}, []string(nil)
	for line := range strings.Lines(string(data)) {
		what, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if what == "handled" {
			handled[value] = true
		} else {
			all = append(all, value)
		}
	}
	for _, value := range all {
		if !handled[value] {
			open = append(open, value)
		}
	}
	return len(all), open
}

func TestWhatEnqueueHasConfirmedIsHandledThoughTheProcessIsKilledAtOnce(t *testing.T) {
	onPrivate(t, func(t *testing.T, w *world, node *testbroker.Rabbit) {
		const kills, each = 4, 300
		path := filepath.Join(t.TempDir(), "jobs")
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		env := settings{"KAFKA_BROKERS": "", "STREAMS_ORDERS_TOPICS": "", jobsVariable: path}
		for i := range kills {
			k := w.work(t, "jobs", env)
			before, _ := jobsOf(t, path)
			eventually(t, "much is confirmed", func() bool {
				now, _ := jobsOf(t, path)
				return now >= before+each
			})
			if i == 1 { // with what it has not confirmed yet
				node.Kill()
			}
			k.kill(t)
			if i == 1 {
				node.Start()
			}
		}
		last := w.work(t, "jobs", env.with(settings{quietVariable: "true"}))
		eventually(t, "all that was confirmed is handled", func() bool {
			_, open := jobsOf(t, path)
			return len(open) == 0
		})
		last.stop(t)
		n, _ := jobsOf(t, path)
		t.Logf("%d were confirmed and handled", n)
	})
}
