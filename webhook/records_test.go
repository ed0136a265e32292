package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// late is a table that is read some time after the start, or after RabbitMQ was away: until then it
// has what was there before.
type late struct {
	known time.Time
	names map[string]bool
}

var errLate = errors.New("being read")

func (l *late) Current(name string) (json.RawMessage, bool, error) {
	if time.Now().Before(l.known) {
		return nil, false, errLate
	}
	return nil, l.names[name], nil
}

func (l *late) Latest(ctx context.Context, name string) (json.RawMessage, bool, error) {
	select {
	case <-time.After(time.Until(l.known)):
		return l.Current(name)
	case <-ctx.Done():
		return nil, false, errLate
	}
}

func (l *late) All(context.Context) (map[string]json.RawMessage, error) { return nil, errLate }

func (l *late) Set(context.Context, string, json.RawMessage, time.Time) error { return nil }

// A process that starts, or was cut off, has calls before it has read what is cancelled: they are
// not put off for that, unless it takes long.
func TestACallWaitsForWhatIsCancelledWhileThatIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewShared(nil, nil, &late{known: time.Now().Add(300 * time.Millisecond), names: map[string]bool{"gone": true}})
		began := time.Now()
		for id, want := range map[string]bool{"gone": true, "stays": false} {
			if got, err := s.Cancelled(t.Context(), id); err != nil || got != want {
				t.Errorf("%s: %v, %v", id, got, err)
			}
		}
		if waited := time.Since(began); waited != 300*time.Millisecond {
			t.Errorf("waited for %s", waited)
		}
		never := NewShared(nil, nil, &late{known: time.Now().Add(time.Hour)})
		began = time.Now()
		if _, err := never.Cancelled(t.Context(), "x"); !errors.Is(err, errLate) || time.Since(began) != time.Second {
			t.Errorf("what cannot be read: %v after %s", err, time.Since(began))
		}
	})
}

// stale is cut off: of a change it knows only once it has asked.
type stale struct{ table }

func (stale) Current(string) (json.RawMessage, bool, error) { return nil, false, errLate }

func (stale) Latest(context.Context, string) (json.RawMessage, bool, error) {
	return json.RawMessage("[2000]"), true, nil
}

func TestAWorkflowThatMayHaveBeenReplacedIsNotUsedAsItWas(t *testing.T) {
	s := NewShared(nil, stale{table{"test": json.RawMessage("[1000]")}}, nil)
	waits, ok, err := s.Workflow(t.Context(), "test")
	if err != nil || !ok || len(waits) != 1 || waits[0] != 2*time.Second {
		t.Errorf("the waits are %v, %v, %v", waits, ok, err)
	}
}

// dated keeps until when each value holds.
type dated map[string]time.Time

func (d dated) Current(string) (json.RawMessage, bool, error) { return nil, false, nil }
func (d dated) Latest(context.Context, string) (json.RawMessage, bool, error) {
	return nil, false, nil
}

func (d dated) All(context.Context) (map[string]json.RawMessage, error) { return nil, nil }

func (d dated) Set(_ context.Context, name string, _ json.RawMessage, until time.Time) error {
	d[name] = until
	return nil
}

func TestACancelHoldsForSixtyDaysAndAWorkflowForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		until := dated{}
		s := NewShared(nil, until, until)
		if err := errors.Join(s.Cancel(t.Context(), "order-17"), s.SetWorkflow(t.Context(), "slow", nil)); err != nil {
			t.Fatal(err)
		}
		if got := time.Until(until["order-17"]); got != 60*24*time.Hour {
			t.Errorf("a cancel holds for %s", got)
		}
		if at, ok := until["slow"]; !ok || !at.IsZero() {
			t.Errorf("a workflow holds until %s", at)
		}
	})
}

func TestAWorkflowThatIsNotThereIsAnsweredWithThoseThatAre(t *testing.T) {
	many := Static{}
	for i := range 12 {
		many[fmt.Sprintf("w%02d", i)] = nil
	}
	const first = "w00, w01, w02, w03, w04, w05, w06, w07, w08, w09"
	for _, test := range []struct {
		records Records
		want    string
	}{
		{Static{}, `"nope" is not there: the configuration has none`},
		{Static{"slow": nil, "fast": nil}, `"nope" is not there: the configuration has fast, slow`},
		{many, `"nope" is not there: the configuration has ` + first + ` and 2 more`},
		{NewShared(Static{"slow": nil}, table{}, table{}), `"nope" is not there: the configuration has slow, and POST /retry_workflow has made none of that name`},
		{struct{ Records }{Static{"slow": nil}}, `"nope" is not there`}, // somebody else's
	} {
		h := handler(t, &stored{}, func(c *Config) { c.Records = test.records })
		code, answer := post(t, h, "/calls", `{"request":{"url":"http://localhost/"},"workflow":"nope"}`)
		if code != 400 || answer["detail"] != "workflow "+test.want {
			t.Errorf("%d %v, want %s", code, answer["detail"], test.want)
		}
		code, answer = post(t, h, "/retry", `{"retry_request":{"url":"http://localhost/"}}`, "X-Retry-Workflow", "nope")
		if code != 400 || answer["detail"] != "x-retry-workflow "+test.want {
			t.Errorf("of /retry: %d %v, want %s", code, answer["detail"], test.want)
		}
	}
}

func TestWorkflowsAreListedAndDeletedButThoseOfTheConfiguration(t *testing.T) {
	made := table{}
	h := handler(t, &stored{}, func(c *Config) {
		c.Records = NewShared(Static{"slow": {time.Minute}}, made, table{})
	})
	made["slow"] = json.RawMessage("[1]") // made before it came into the configuration
	for _, name := range []string{"test", "again"} {
		if code, answer := post(t, h, "/retry_workflow", `{"name":"`+name+`","retry_delays":[5000,10000]}`); code != 200 {
			t.Fatalf("%d %v", code, answer)
		}
	}
	for _, step := range []struct {
		method, path string
		code         int
		want         string
	}{
		{"GET", "/retry_workflow", 200, "map[workflows:[map[name:again retry_delays:[5000 10000]] map[configured:true name:slow retry_delays:[60000]] map[name:test retry_delays:[5000 10000]]]]"},
		{"DELETE", "/retry_workflow/test", 200, "map[deleted:true name:test]"},
		{"GET", "/retry_workflow", 200, "map[workflows:[map[name:again retry_delays:[5000 10000]] map[configured:true name:slow retry_delays:[60000]]]]"},
		{"DELETE", "/retry_workflow/test", 404, `workflow "test" is not there; GET /retry_workflow lists those that are`},
		{"DELETE", "/retry_workflow/slow", 409, `workflow "slow" is in the configuration: change it there`},
		{"GET", "/retry_workflow?name=again", 400, "GET /retry_workflow takes no query parameters"},
		{"DELETE", "/retry_workflow/again?force", 400, "DELETE /retry_workflow/{name} takes no query parameters"},
		{"DELETE", "/retry_workflow/", 404, "there is nothing at this path"},
		{"GET", "/retry_workflow/again", 405, "takes DELETE"},
	} {
		code, answer := ask(t, h, step.method, step.path, "")
		if code != step.code || !strings.Contains(fmt.Sprint(answer), step.want) {
			t.Errorf("%s %s: %d %v, want %d %s", step.method, step.path, code, answer, step.code, step.want)
		}
	}
	if code, answer := post(t, h, "/calls", `{"request":{"url":"http://localhost/"},"workflow":"test"}`); code != 400 {
		t.Errorf("a call of a workflow that was deleted: %d %v", code, answer)
	}
	h = handler(t, &stored{}, func(c *Config) { c.Records = NewShared(nil, &late{}, table{}) })
	if code, answer := ask(t, h, "GET", "/retry_workflow", ""); code != 503 {
		t.Errorf("what cannot be read: %d %v", code, answer)
	}
}
