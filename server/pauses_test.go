package server_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stepwell/stepwell/server"
)

// appPauses are pauses of the app that one process keeps.
type appPauses struct {
	mu   sync.Mutex
	by   map[string]string
	err  error
	here map[string]*control
}

func (p *appPauses) Pause(_ context.Context, stream, by string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil && p.by[stream] == "" {
		p.by[stream] = by
		now := p.of(stream)
		p.here[stream].set(server.ScopeApp, &now)
	}
	return p.err
}

func (p *appPauses) Resume(_ context.Context, stream string) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil || p.by[stream] == "" {
		return false, p.err
	}
	delete(p.by, stream)
	if c := p.here[stream]; c != nil {
		c.set(server.ScopeApp, nil)
	}
	return true, nil
}

func (p *appPauses) Others() (all []server.OtherPause) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, stream := range slices.Sorted(maps.Keys(p.by)) {
		if p.here[stream] == nil {
			all = append(all, server.OtherPause{Stream: stream, Pause: p.of(stream)})
		}
	}
	return all
}

func (p *appPauses) of(stream string) server.Pause {
	return server.Pause{Scope: server.ScopeApp, By: p.by[stream], Since: time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)}
}

// withPauses starts a server whose app can be paused as a whole.
func withPauses(t *testing.T, modes ...string) (*world, *appPauses) {
	orders := &control{}
	p := &appPauses{by: map[string]string{}, here: map[string]*control{"orders": orders}}
	return start(t, func(c *server.Config) {
		c.Pauses, c.Modes, c.App = p, modes, "shipping"
		s := c.Streams["orders"]
		s.Control = orders
		c.Streams["orders"] = s
	}), p
}

func TestAPauseOfTheAppAndOneOfTheInstanceAreLiftedEachByItsOwnScope(t *testing.T) {
	w, _ := withPauses(t)
	steps := []struct {
		request string
		paused  bool
		says    []string
	}{
		{"pause?scope=app", true, []string{"orders is paused in all processes"}},
		{"pause?scope=app", true, []string{"orders is paused in all processes"}},
		{"pause", true, []string{"orders is paused on this instance"}},
		{"resume", true, []string{"orders is resumed on this instance", "still paused in all processes of the app, by loopback, since 2026-01-02T15:04:05Z", "resume of scope app, stepwell resume orders --app"}},
		{"pause?scope=instance", true, []string{"on this instance"}},
		{"resume?scope=app", true, []string{"orders is resumed in all processes", "still paused on this instance, by loopback", "resume of scope instance, stepwell resume orders"}},
		{"resume", false, []string{"orders is resumed on this instance"}},
		{"resume?scope=app", false, []string{"orders is resumed in all processes"}},
	}
	for i, step := range steps {
		a := w.do("POST", "/v1/streams/orders/"+step.request, "")
		if a.status != 200 || a.json["paused"] != step.paused {
			t.Errorf("step %d, %s: %d %s", i, step.request, a.status, a.text)
		}
		if says := fmt.Sprint(a.json["message"]); strings.HasSuffix(says, "--app") != strings.Contains(says, "resume of scope app") {
			t.Errorf("step %d: it names the wrong command: %s", i, says)
		}
		for _, says := range step.says {
			if !strings.Contains(fmt.Sprint(a.json["message"]), says) {
				t.Errorf("step %d, %s does not say %q: %s", i, step.request, says, a.text)
			}
		}
		if !step.paused && strings.Contains(a.text, "still") {
			t.Errorf("step %d: nothing holds it back: %s", i, a.text)
		}
		if text := w.do("GET", "/v1/streams", "").text; strings.Contains(text, `"paused":true`) != step.paused || strings.Contains(text, `"scope"`) != step.paused {
			t.Errorf("after step %d: %s", i, text)
		}
	}
	for _, line := range []string{`msg="audit: stream paused" by=loopback role=operator right=loopback address=127.0.0.1 stream=orders scope=app`, `msg="audit: stream resumed"`, "stream=orders scope=instance"} {
		if !strings.Contains(w.log.String(), line) {
			t.Errorf("the log has no %s:\n%s", line, w.log)
		}
	}
}

func TestAProcessWithTheAPIAlonePausesTheAppAndNotItself(t *testing.T) {
	w, p := withPauses(t, "api")
	if a := w.do("POST", "/v1/streams/orders/pause", ""); a.status != 409 || !strings.Contains(a.text, "scope app") {
		t.Errorf("itself: %d %s", a.status, a.text)
	}
	if a := w.do("POST", "/v1/streams/orders/pause", `{"scope":"app"}`); a.status != 200 || p.by["orders"] != "loopback" {
		t.Errorf("the app: %d %s", a.status, a.text)
	}
}

func TestAPauseOfAStreamThatIsGoneIsShownAndLiftedByItsNameAndNoOtherIsMade(t *testing.T) {
	w, p := withPauses(t)
	p.by["gone"] = "alice"
	if text := w.do("GET", "/v1/streams", "").text; !strings.Contains(text, `"other_pauses":[{"stream":"gone","scope":"app","by":"alice","since":"2026-01-02T15:04:05Z"}]`) {
		t.Errorf("it is not shown: %s", text)
	}
	tests := []struct {
		path   string
		status int
		says   string
	}{
		{"/v1/streams/gone/pause?scope=app", 404, "unknown stream"},
		{"/v1/streams/gone/resume", 404, "unknown stream"},
		{"/v1/streams/gone/resume?scope=app", 200, "gone is resumed in all processes"},
		{"/v1/streams/gone/resume?scope=app", 404, "no pause of the app has this name"},
	}
	for _, test := range tests {
		if a := w.do("POST", test.path, ""); a.status != test.status || !strings.Contains(a.text, test.says) {
			t.Errorf("%s: %d %s", test.path, a.status, a.text)
		}
	}
	if text := w.do("GET", "/v1/streams", "").text; strings.Contains(text, "other_pauses") {
		t.Errorf("it is still shown: %s", text)
	}
}

func TestWhyThereIsNoPauseOfTheAppIsSaidAndWhetherAskingAgainHelps(t *testing.T) {
	w, p := withPauses(t)
	for _, test := range []struct {
		err    error
		status int
		again  string
	}{
		{fmt.Errorf("%w: RABBITMQ_RECORDS=false", server.ErrNotShared), 409, ""},
		{fmt.Errorf("%w: the connection was lost", server.ErrUnavailable), 503, "5"},
	} {
		p.err = test.err
		for _, verb := range []string{"pause", "resume"} {
			a := w.do("POST", "/v1/streams/orders/"+verb+"?scope=app", "")
			if a.status != test.status || a.json["detail"] != test.err.Error() || a.header.Get("Retry-After") != test.again {
				t.Errorf("%s: %d %s", verb, a.status, a.text)
			}
		}
		if !strings.Contains(w.log.String(), test.err.Error()) {
			t.Errorf("nobody wrote it down: %s", w.log)
		}
	}
	if w.do("POST", "/v1/streams/orders/pause", "").status != 200 {
		t.Error("the instance is not paused")
	}
}
