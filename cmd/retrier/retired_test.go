package main

import (
	"fmt"
	"slices"
	"testing"
)

// What a call asks for beside itself is part of the old work: a call that was made would else be
// dead, and made again by its replay.
func TestARetiredRetrierMakesWhatFollowsFromItsCallsToo(t *testing.T) {
	t.Parallel()
	onRabbitMQ(t, func(t *testing.T, w *world) {
		r := newReceiver(t, func(path string, _ int) int {
			if path == "/bad" {
				return 500
			}
			return 200
		})
		before := w.start("MODES=api")
		for _, body := range []string{
			fmt.Sprintf(`{"id":"a","request":{"url":%q},"waits":[],"on_success":{"url":%q}}`, r.url("/good"), r.url("/done")),
			fmt.Sprintf(`{"id":"b","request":{"url":%q},"waits":[],"on_failure":{"url":%q}}`, r.url("/bad"), r.url("/failed")),
		} {
			if a := before.do("POST", "/calls", body); a.status != 202 {
				t.Fatalf("%d %v", a.status, a.json)
			}
		}
		run := w.start("STREAMS_CALLS_RETIRED=true", "TELEMETRY_DEPTH_INTERVAL=100ms")
		eventually(t, "all is made, or something is dead", func() bool { return r.count() == 4 || len(run.dead()) > 0 })
		eventually(t, "the stream is empty, or something is dead", func() bool {
			of := run.do("GET", "/v1/streams", "").json["streams"].([]any)[0].(map[string]any)
			return of["empty_since"] != nil || len(run.dead()) > 0
		})
		var paths []string
		for _, got := range r.requests() {
			paths = append(paths, got.path)
		}
		slices.Sort(paths)
		if fmt.Sprint(paths) != "[/bad /done /failed /good]" || len(run.dead()) > 0 {
			t.Errorf("made: %v; dead: %v", paths, run.dead())
		}
	})
}
