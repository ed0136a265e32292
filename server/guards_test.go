package server_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell/internal/operations"
)

func TestWhatHoldsAReplayBackIsTakenAndShown(t *testing.T) {
	for members, want := range map[string]struct {
		canary int
		wait   time.Duration
		stop   string
		shown  string
	}{
		``:           {0, 0, "", "<nil> <nil> <nil>"},
		`"canary":1`: {1, 2 * time.Minute, "", "1 2m0s <nil>"},
		`"canary":1000,"canary_wait":"1h","stop_at":"0.25%"`: {1000, time.Hour, "0.25%", "1000 1h0m0s 0.25%"},
		`"stop_at":20`:                     {0, 0, "20", "<nil> <nil> 20"},
		`"stop_at":20,"canary_wait":"10m"`: {0, 10 * time.Minute, "20", "<nil> 10m0s 20"},
		`"stop_at":"20"`:                   {0, 0, "20", "<nil> <nil> 20"},
		`"stop_at":"100%"`:                 {0, 0, "100%", "<nil> <nil> 100%"},
		`"stop_at":999999999`:              {0, 0, "999999999", "<nil> <nil> 999999999"},
	} {
		t.Run(members, func(t *testing.T) {
			w, p := operating(t)
			a := w.do("POST", "/v1/dead_set/operations", `{"action":"replay","stream":"orders","select":{"all":true}`+strings.TrimSuffix(","+members, ",")+`}`)
			if a.status != 202 || fmt.Sprint(a.json["canary"], " ", a.json["canary_wait"], " ", a.json["stop_at"]) != want.shown {
				t.Fatalf("%d %s", a.status, a.text)
			}
			r := <-p.asked
			if r.CanaryWait != operations.Wait(want.wait) || r.StopAt.String() != want.stop {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestAGuardThatIsNotUnderstoodIsRefusedAndNothingIsReplayedWithoutIt(t *testing.T) {
	w, p := operating(t)
	const canary, wait, stop = "canary must be a whole number from 1 to 1000", "canary_wait must be a duration of at most 1h0m0s, such as 2m", "stop_at must be a number of messages, such as 20, or a share, such as 5%"
	for members, says := range map[string]string{
		// misspelt
		`"canery":10`: "did you mean canary?", `"canary-wait":"2m","canary":1`: "did you mean canary_wait?", `"stopat":5`: "did you mean stop_at?", `"Canary":1`: "unknown member Canary",
		// missing
		`"canary":null`: canary, `"canary_wait":"2m"`: "canary_wait is for a canary or a stop_at", `"canary":1,"canary_wait":""`: "canary_wait is empty", `"canary":1,"canary_wait":null`: "canary_wait must be a text",
		`"stop_at":""`: stop, `"stop_at":null`: stop,
		// absurd
		`"canary":0`: canary, `"canary":-1`: canary, `"canary":1.5`: canary, `"canary":"10"`: canary, `"canary":"all"`: canary, `"canary":[1]`: canary,
		`"canary":1,"canary_wait":"0s"`: wait, `"canary":1,"canary_wait":"-2m"`: wait, `"canary":1,"canary_wait":"soon"`: wait, `"canary":1,"canary_wait":120`: "canary_wait must be a text",
		`"stop_at":0`: stop, `"stop_at":-5`: stop, `"stop_at":"0%"`: stop, `"stop_at":"-5%"`: stop, `"stop_at":"101%"`: stop, `"stop_at":"5 %"`: stop, `"stop_at":"half"`: stop, `"stop_at":5.5`: stop, `"stop_at":true`: stop, `"stop_at":{}`: stop, `"stop_at":"0.001%"`: stop, `"stop_at":1e3`: stop,
		// huge
		`"canary":1001`: canary, `"canary":99999999999999999999`: canary, `"canary":1,"canary_wait":"61m"`: wait, `"canary":1,"canary_wait":"9999999h"`: wait,
		`"stop_at":1000000000`: stop, `"stop_at":"` + strings.Repeat("9", 5000) + `"`: stop,
	} {
		for _, dry := range []string{"", `,"dry_run":true`} {
			a := w.do("POST", "/v1/dead_set/operations", `{"action":"replay","stream":"orders","select":{"all":true},`+members+dry+`}`)
			if a.status != 400 || !strings.Contains(fmt.Sprint(a.json["error"]), says) || says == canary && a.json["error"] != canary || len(a.text) > 2000 {
				t.Errorf("%s: %d %s", members, a.status, a.text)
			}
		}
	}
	for _, members := range []string{`"canary":1`, `"stop_at":5`, `"canary":1,"canary_wait":"1m"`} {
		a := w.do("POST", "/v1/dead_set/operations", `{"action":"delete","stream":"orders","select":{"all":true},`+members+`}`)
		if a.status != 400 || !strings.Contains(a.text, "canary, canary_wait and stop_at are for replay") {
			t.Errorf("a delete with %s: %d %s", members, a.status, a.text)
		}
	}
	// All that is wrong is said at once.
	a := w.do("POST", "/v1/dead_set/operations", `{"action":"replay","stream":"orders","select":{"all":true},"canary":0,"canary_wait":"2h","stop_at":"no"}`)
	if a.status != 400 || !strings.Contains(a.text, canary) || !strings.Contains(a.text, wait) || !strings.Contains(a.text, stop) {
		t.Errorf("%d %s", a.status, a.text)
	}
	if len(p.asked) > 0 {
		t.Errorf("%d turns", len(p.asked))
	}
}
