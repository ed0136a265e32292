package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// What a call asks for beside itself is part of the old work: a call that was made would else be
// dead, and made again by its replay.
func TestARetiredRetrierMakesItsCallsWithWhatFollowsAndAnswersNewOnesWithGone(t *testing.T) {
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
		run := w.start("STREAMS_CALLS_RETIRED=true", "TELEMETRY_DEPTH_INTERVAL=100ms", "APP_WORKFLOWS_DEFAULT=5s")
		for path, body := range map[string]string{
			"/calls": fmt.Sprintf(`{"request":{"url":%q},"waits":[]}`, r.url("/new")),
			"/retry": fmt.Sprintf(`{"retry_request":{"url":%q}}`, r.url("/new")),
		} {
			if a := run.do("POST", path, body); a.status != 410 || !strings.Contains(fmt.Sprint(a.json["detail"]), "it is retired") {
				t.Errorf("a new call to %s: %d %v", path, a.status, a.json)
			}
		}
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
