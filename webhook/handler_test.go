package webhook

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
)

func callTo(url string) *call {
	return &call{ID: "order-17", Request: request{Method: "POST", URL: url}, Waits: spans([]time.Duration{5 * time.Second, 10 * time.Second}), StopOn: []int{410}}
}

func TestACallEndsWithItsSuccessAndTellsOnSuccessOnce(t *testing.T) {
	r := newReceiver(t, status(200))
	s := &stored{}
	h := handler(t, s, nil)
	c := callTo(r.URL + "/first")
	c.OnSuccess = &request{Method: "POST", URL: r.URL + "/done"}
	if err := h.Call(t.Context(), messageOf(t, c, 1)); err != nil {
		t.Fatal(err)
	}
	if len(s.all) != 1 || r.count() != 1 {
		t.Fatalf("%d stored, %d requests", len(s.all), r.count())
	}
	follow := s.all[0]
	follow.Attempt = 1
	if err := h.Call(t.Context(), &follow); err != nil {
		t.Fatal(err)
	}
	if len(s.all) != 1 || r.count() != 2 || r.requests[1].URL.Path != "/done" {
		t.Errorf("%d stored, requests %v", len(s.all), r.requests)
	}
	if one, two := r.requests[0].Header.Get(headerID), r.requests[1].Header.Get(headerID); one != "order-17" || two != "order-17:on_success" {
		t.Errorf("webhook-ids %s and %s", one, two)
	}
}

func TestASuccessWhoseOnSuccessIsNotStoredUsesNoTryAndIsNotDone(t *testing.T) {
	r := newReceiver(t, status(200))
	h := handler(t, &stored{err: errors.New("away")}, nil)
	c := callTo(r.URL)
	c.OnSuccess = &request{Method: "POST", URL: r.URL}
	if v := stepwell.VerdictOf(h.Call(t.Context(), messageOf(t, c, 3))); v.Kind != stepwell.Snoozed {
		t.Errorf("verdict %s", v.Kind)
	}
	never := errors.New("refused")
	h = handler(t, &stored{err: never}, func(c *Config) { c.Refused = never })
	if v := stepwell.VerdictOf(h.Call(t.Context(), messageOf(t, c, 1))); v.Kind != stepwell.Dead {
		t.Errorf("an on_success that can never be stored: %s", v.Kind)
	}
	if code, answer := post(t, h, "/calls", `{"request":{"url":"http://localhost/"},"waits":[]}`); code != 413 {
		t.Errorf("a call that can never be stored: %d %v", code, answer)
	}
	if _, err := h.Post(t.Context(), []byte(`{"request":{"url":"http://localhost/"},"waits":[]}`)); stepwell.VerdictOf(err).Kind != stepwell.Dead {
		t.Errorf("a call of the program's own that can never be stored: %v", err)
	}
}

func TestARefusalIsTheMistakeOfACallerOnlyWhereTheCallIsTooLarge(t *testing.T) {
	refused, large := errors.New("refused"), errors.New("it is too large")
	for name, test := range map[string]struct {
		err, large error // what Enqueue answers, and Config.TooLarge
		code       int
		says       string
	}{
		"too large":                       {errors.Join(refused, large), large, 413, "it is too large"},
		"a stream that is not there":      {refused, large, 500, "as this program is made it takes nobody's calls: refused"},
		"a program that does not tell it": {refused, nil, 413, "refused"},
	} {
		h := handler(t, &stored{err: test.err}, func(c *Config) { c.Refused, c.TooLarge = refused, test.large })
		code, answer := post(t, h, "/calls", `{"request":{"url":"http://localhost/"},"waits":[]}`)
		if detail, _ := answer["detail"].(string); code != test.code || !strings.Contains(detail, test.says) {
			t.Errorf("%s: %d %v", name, code, answer)
		}
	}
}

func TestAnOnFailureIsTriedLikeACallAndTellsBothErrorsInTheEnd(t *testing.T) {
	r := newReceiver(t, status(500))
	s := &stored{}
	h := handler(t, s, nil)
	c := callTo(r.URL + "/first")
	c.OnFailure = &request{Method: "PUT", URL: r.URL + "/failed"}
	last := messageOf(t, c, 3)
	err := h.Call(t.Context(), last)
	if v := stepwell.VerdictOf(err); v.Kind != stepwell.Dead {
		t.Fatalf("the last try: %s", v.Kind)
	}
	if err := h.Fallback(t.Context(), last, err); err != nil {
		t.Fatalf("not taken over: %v", err)
	}
	follow := s.all[0]
	for attempt, want := range map[int]stepwell.Kind{1: stepwell.Retry, 2: stepwell.Retry, 3: stepwell.Dead} {
		follow.Attempt = attempt
		err = h.Call(t.Context(), &follow)
		if v := stepwell.VerdictOf(err); v.Kind != want {
			t.Errorf("try %d of on_failure: %s, want %s", attempt, v.Kind, want)
		}
	}
	if !strings.Contains(err.Error(), "on_failure: ") || strings.Count(err.Error(), "status 500") != 2 {
		t.Errorf("error %q", err)
	}
	if err := h.Fallback(t.Context(), &follow, err); err == nil {
		t.Error("an on_failure has a fallback of its own")
	}
	if path := r.requests[1].URL.Path; path != "/failed" {
		t.Errorf("on_failure went to %s", path)
	}
	// A replay begins with the call itself, and may fall back again.
	follow.Replays, follow.Attempt = 1, 1
	before := r.count()
	_ = h.Call(t.Context(), &follow)
	if got := r.requests[before]; got.URL.Path != "/first" || got.Header.Get(headerID) != "order-17" {
		t.Errorf("the replay called %s as %s", got.URL.Path, got.Header.Get(headerID))
	}
	if err := h.Fallback(t.Context(), &follow, errors.New("again")); err != nil {
		t.Errorf("the replay's fallback: %v", err)
	}
}

func TestACallWithoutOnFailureGoesToTheDeadSet(t *testing.T) {
	h := handler(t, &stored{}, nil)
	failure := errors.New("x")
	if err := h.Fallback(t.Context(), messageOf(t, callTo("http://localhost:1"), 1), failure); err != failure {
		t.Errorf("nothing was asked for beside the call, and %v is said", err)
	}
	if err := h.Fallback(t.Context(), messageOf(t, callTo("http://localhost:1"), 1), nil); err == nil {
		t.Error("taken over though nothing was stored")
	}
}

func TestAnOnFailureThatIsNotConfirmedIsNotSaidToBeUnmade(t *testing.T) {
	away, never := errors.New("away"), errors.New("too large")
	c := callTo("http://localhost:1")
	c.OnFailure = &c.Request
	for stores, want := range map[error]string{
		away:  "on_failure is perhaps stored, and made all the same: away",
		never: "on_failure cannot be stored: too large",
	} {
		h := handler(t, &stored{err: stores}, func(c *Config) { c.Refused = never })
		if err := h.Fallback(t.Context(), messageOf(t, c, 1), errors.New("x")); err == nil || err.Error() != want {
			t.Errorf("%v: taken over, or not, with %v", stores, err)
		}
	}
}

func TestADownHostBurnsNoTries(t *testing.T) {
	h := handler(t, &stored{}, nil)
	m := messageOf(t, callTo("http://127.0.0.1:1/"), 1) // nobody listens
	tries := 0
	for range 50 {
		v := stepwell.VerdictOf(h.Call(t.Context(), m))
		switch v.Kind {
		case stepwell.Retry:
			tries++
		case stepwell.Snoozed:
			if want := snoozes()[min(m.Snoozes, 4)]; v.After != want {
				t.Errorf("snoozed for %s, want %s", v.After, want)
			}
			m.Snoozes++
		default:
			t.Fatalf("verdict %s", v.Kind)
		}
	}
	if tries != tooMany {
		t.Errorf("%d tries, want %d before the host counts as down", tries, tooMany)
	}
}

// Who posts calls could lift the limit else, by a port with another zero in front each time.
func TestAHostIsOneHoweverItIsWritten(t *testing.T) {
	asked, answer := make(chan struct{}, 10), make(chan struct{})
	r := newReceiver(t, func(http.ResponseWriter, *http.Request) { asked <- struct{}{}; <-answer })
	h := handler(t, &stored{}, func(c *Config) { c.HostLimit = 1 })
	_, port, _ := strings.Cut(strings.TrimPrefix(r.URL, "http://"), ":")
	first := make(chan error, 1)
	go func() { first <- h.Call(t.Context(), messageOf(t, callTo("http://localhost:"+port+"/a"), 1)) }()
	<-asked
	for _, host := range []string{"LocalHost:" + port, "localhost.:" + port, "localhost:0" + port} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		if v := stepwell.VerdictOf(h.Call(ctx, messageOf(t, callTo("http://"+host+"/b"), 1))); v.Kind != stepwell.Snoozed {
			t.Errorf("%s has a place of its own: %s", host, v.Kind)
		}
		cancel()
	}
	close(answer)
	if err := <-first; err != nil {
		t.Error(err)
	}
	for url, want := range map[string]string{
		"https://API.example.com:443/x": "https://api.example.com", "http://api.example.com.:080?a=b": "http://api.example.com",
		"https://api.example.com:80": "https://api.example.com:80", "http://[0:0::1]:8080": "http://[::1]:8080", "http://[::ffff:192.0.2.1]": "http://192.0.2.1",
	} {
		if got := (&request{URL: url}).host(); got != want {
			t.Errorf("%s: %s, want %s", url, got, want)
		}
	}
}

func TestACancelledCallIsSkippedAndOneThatMayBeIsNotMade(t *testing.T) {
	r := newReceiver(t, status(200))
	records := NewShared(nil, table{}, table{})
	h := handler(t, &stored{}, func(c *Config) { c.Records = records })
	if code, answer := ask(t, h, http.MethodDelete, "/calls/order-17", ""); code != 200 || answer["cancelled"] != true {
		t.Fatalf("%d %v", code, answer)
	}
	if v := stepwell.VerdictOf(h.Call(t.Context(), messageOf(t, callTo(r.URL), 1))); v.Kind != stepwell.Skipped {
		t.Errorf("a cancelled call: %s", v.Kind)
	}
	c := callTo(r.URL)
	c.OnFailure, c.OnSuccess = &c.Request, &c.Request
	for _, to := range []step{stepFailure, stepSuccess} {
		if v := stepwell.VerdictOf(h.Call(t.Context(), messageOf(t, c.follow(to, "x"), 1))); v.Kind != stepwell.Skipped {
			t.Errorf("the %s of a cancelled call: %s", to, v.Kind)
		}
	}
	h = handler(t, &stored{}, func(c *Config) { c.Records = unknownRecords{} })
	if v := stepwell.VerdictOf(h.Call(t.Context(), messageOf(t, callTo(r.URL), 1))); v.Kind != stepwell.Snoozed {
		t.Errorf("a call of which it is not known whether it is cancelled: %s", v.Kind)
	}
	if r.count() != 0 {
		t.Errorf("%d requests", r.count())
	}
	if code, _ := post(t, h, "/calls", `{"request":{"url":"http://localhost/"},"workflow":"x"}`); code != 503 {
		t.Errorf("a workflow that cannot be looked up: %d", code)
	}
}

// unknownRecords know nothing at present.
type unknownRecords struct{ Static }

func (unknownRecords) Cancelled(context.Context, string) (bool, error) {
	return false, errors.New("not yet")
}
func (unknownRecords) Workflow(context.Context, string) ([]time.Duration, bool, error) {
	return nil, false, errors.New("not yet")
}

func TestCallsThatCannotBeSignedSayNothingOfTheirHost(t *testing.T) {
	r := newReceiver(t, status(http.StatusOK))
	h := handler(t, &stored{}, nil)
	c := &call{ID: "a", Request: request{Method: "POST", URL: r.URL}, Sign: "gone", Waits: []span{span(time.Minute)}}
	for range 2 * tooMany {
		if err := h.Call(t.Context(), messageOf(t, c, 1)); err == nil || !strings.Contains(err.Error(), `secret "gone"`) {
			t.Fatalf("a call without its secret: %v", err)
		}
	}
	c.Sign = ""
	if err := h.Call(t.Context(), messageOf(t, c, 1)); err != nil || r.count() != 1 {
		t.Errorf("the host is up and was called %d times: %v", r.count(), err)
	}
}

// An edit may write what no call that is posted could have.
func TestCallsThatCannotBeSentSayNothingOfTheirHost(t *testing.T) {
	r := newReceiver(t, status(http.StatusOK))
	for why, edit := range map[string]func(*call){
		"a header of two lines":                                       func(c *call) { c.Request.Headers = http.Header{"A": {"b\nc"}} },
		"a header with a name of two":                                 func(c *call) { c.Request.Headers = http.Header{"A\nB": {"c"}} },
		"one of the connection, which HTTP/2 refuses once it has one": func(c *call) { c.Request.Headers = http.Header{"Upgrade": {"x"}} },
		"an id that is none of a header":                              func(c *call) { c.ID = "x\ny" },
	} {
		h := handler(t, &stored{}, nil)
		c := callTo(r.URL)
		c.Waits = []span{span(time.Minute)}
		edit(c)
		for range 2 * tooMany {
			if err := h.Call(t.Context(), messageOf(t, c, 1)); err == nil || !strings.Contains(err.Error(), "header") {
				t.Fatalf("%s: %v", why, err)
			}
		}
		before := r.count()
		if err := h.Call(t.Context(), messageOf(t, callTo(r.URL), 1)); err != nil || r.count() != before+1 {
			t.Errorf("%s: the host is up and was called %d times: %v", why, r.count()-before, err)
		}
	}
}

func TestAStopDuringACallSaysNothingOfItsHost(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	r := newReceiver(t, func(_ http.ResponseWriter, req *http.Request) {
		stop()
		<-req.Context().Done()
	})
	h := handler(t, &stored{}, nil)
	_ = h.Call(ctx, messageOf(t, callTo(r.URL), 1))
	for _, g := range h.gates.hosts {
		if g.failures > 0 {
			t.Error("the stop counts as a failure of the host")
		}
	}
}

func TestWhatIsNoCallDiesAtOnce(t *testing.T) {
	h := handler(t, &stored{}, nil)
	for _, value := range []string{"", "{", `{"step":"other"}`, `{"step":"on_failure","request":{}}`} {
		if v := stepwell.VerdictOf(h.Call(t.Context(), &stepwell.Message{Value: []byte(value), Attempt: 1})); v.Kind != stepwell.Dead {
			t.Errorf("%q: %s", value, v.Kind)
		}
	}
}

// A person who edits a dead call writes it as one that is posted.
func TestACallThatWasEditedIsMadeAsOneThatIsPosted(t *testing.T) {
	r := newReceiver(t, status(200))
	s := &stored{}
	h := handler(t, s, nil)
	value := strings.ReplaceAll(`{"id":"order-17","request":{"url":"URL","body":null},"waits":[],"on_success":{"method":"put","url":"URL","body":null}}`, "URL", r.URL)
	m := stepwell.Message{Value: []byte(value)}
	for range 2 { // the call, and its on_success
		if err := h.Call(t.Context(), &m); err != nil {
			t.Fatal(err)
		}
		m = s.all[0]
	}
	for i, method := range []string{http.MethodPost, http.MethodPut} {
		if made := r.requests[i]; made.Method != method || r.bodies[i] != "" || made.Header.Get("Content-Type") != "" {
			t.Errorf("request %d is a %s of %q, %v", i, made.Method, r.bodies[i], made.Header)
		}
	}
}

func TestAllMistakesOfAConfigurationAreToldAtOnce(t *testing.T) {
	_, err := NewHandler(Config{Hosts: []string{"a:1"}, Secrets: []string{"x"}, Timeout: time.Hour, HostLimit: -1, BodyLimit: -1})
	if err == nil || len(strings.Split(err.Error(), "\n")) != 6 {
		t.Error(err)
	}
}

func TestACallThatTheProgramPostsItselfIsStoredOrSaysWhyNot(t *testing.T) {
	s := &stored{}
	h := handler(t, s, nil)
	if id, err := h.Post(t.Context(), []byte(`{"id":"a","request":{"url":"http://localhost/"},"waits":[]}`)); id != "a" || err != nil || len(s.all) != 1 {
		t.Errorf("%s, %v, %d stored", id, err, len(s.all))
	}
	_, err := h.Post(t.Context(), []byte(`{"id":"a","request":{}}`))
	if v := stepwell.VerdictOf(err); v.Kind != stepwell.Dead || !strings.Contains(err.Error(), "request.url is required") || !strings.Contains(err.Error(), "waits is required") {
		t.Errorf("mistakes: %s %v", v.Kind, err)
	}
	h = handler(t, &stored{}, func(c *Config) { c.Records = unknownRecords{} })
	_, err = h.Post(t.Context(), []byte(`{"id":"a","request":{"url":"http://localhost/"},"workflow":"x"}`))
	if v := stepwell.VerdictOf(err); v.Kind != stepwell.Retry {
		t.Errorf("a workflow that cannot be looked up: %s %v", v.Kind, err)
	}
}

func TestACallStopsOnItsStatusesAndItsOnFailureDoesNot(t *testing.T) {
	r := newReceiver(t, status(http.StatusGone))
	h := handler(t, &stored{}, nil)
	c := callTo(r.URL)
	c.OnFailure = &c.Request
	for of, want := range map[*call]stepwell.Kind{c: stepwell.Dead, c.follow(stepFailure, "x"): stepwell.Retry} {
		if v := stepwell.VerdictOf(h.Call(t.Context(), messageOf(t, of, 1))); v.Kind != want {
			t.Errorf("step %q: %s, want %s", of.Step, v.Kind, want)
		}
	}
}
