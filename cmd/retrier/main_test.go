package main

import (
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell/actor"
	"github.com/stepwell/stepwell/internal/testbroker"
)

func always(status int) func(string, int) int { return func(string, int) int { return status } }

// The two calls are those of the REST retrier's documentation, but for the URLs.
func TestTheDocumentedCallsOfTheRESTRetrierWorkAsTheyStand(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		r := newReceiver(t, func(path string, _ int) int {
			return map[string]int{"/failed": 200}[path] + map[string]int{"/charge": 404}[path]
		})
		run := w.start()
		if a := run.do("POST", "/retry_workflow", `{"name":"test","retry_delays":[5000,10000,15000]}`); a.status != 200 {
			t.Fatalf("workflow: %d %v", a.status, a.json)
		}
		body := fmt.Sprintf(`{"message_id":"17","group_id":"g",
			"retry_request":{"request_type":"POST","request_body":{"a":1},"url":%q,"headers":{"h":["v"]}},
			"retry_failure_request":{"request_type":"PUT","request_body":{"b":2},"url":%q,"headers":{"h":["w"]}}}`, r.url("/charge"), r.url("/failed"))
		if a := run.do("POST", "/retry", body, "x-retry-workflow", "other"); a.status != 400 || !strings.Contains(fmt.Sprint(a.json["detail"]), `"other"`) {
			t.Errorf("an unknown workflow: %d %v", a.status, a.json)
		}
		posted := time.Now()
		if a := run.do("POST", "/retry", body, "x-retry-workflow", "test"); a.status != 202 {
			t.Fatalf("retry: %d %v", a.status, a.json)
		}
		eventually(t, "the failure request", func() bool { return len(r.requests()) >= 4 })
		all := r.requests()
		for i, least := range []time.Duration{5 * time.Second, 15 * time.Second, 30 * time.Second, 30 * time.Second} {
			if after := all[i].at.Sub(posted); after < least || after > least+10*time.Second {
				t.Errorf("request %d came after %s, want %s", i+1, after, least)
			}
		}
		for _, got := range all[:3] {
			if got.method != "POST" || got.path != "/charge" || got.body != `{"a":1}` || got.header.Get("h") != "v" || got.header.Get("Webhook-Id") != "17" {
				t.Errorf("a try: %+v", got)
			}
		}
		if got := all[3]; got.method != "PUT" || got.path != "/failed" || got.body != `{"b":2}` || got.header.Get("h") != "w" {
			t.Errorf("the failure request: %+v", got)
		}
		if dead := run.dead(); len(dead) > 0 || len(r.requests()) > 4 {
			t.Errorf("%d requests, dead %v", len(r.requests()), dead)
		}
	})
}

func TestACallIsMadeAfterEachOfItsWaitsThenItsFallback(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		r := newReceiver(t, always(500))
		run := w.start()
		body := fmt.Sprintf(`{"id":"order-17","request":{"url":%q,"body":{"n":1}},"waits":["1s","2s"],"on_failure":{"method":"PUT","url":%q}}`, r.url("/hook"), r.url("/failed"))
		if a := run.do("POST", "/calls", body); a.status != 202 || a.json["id"] != "order-17" {
			t.Fatalf("%d %v", a.status, a.json)
		}
		eventually(t, "the call is dead", func() bool { return len(run.dead()) == 1 })
		all, paths := r.requests(), ""
		for _, got := range all {
			paths += got.path + " "
		}
		if paths != "/hook /hook /hook /failed /failed /failed " {
			t.Fatalf("requests %s", paths)
		}
		for i, least := range []time.Duration{time.Second, 2 * time.Second, 0, time.Second, 2 * time.Second} {
			if wait := all[i+1].at.Sub(all[i].at); wait < least {
				t.Errorf("request %d came after %s, want at least %s", i+2, wait, least)
			}
		}
		dead := run.dead()[0]
		text := fmt.Sprint(dead["error"])
		for _, part := range []string{"on_failure: ", "status 500: the answer to /failed", "status 500: the answer to /hook"} {
			if !strings.Contains(text, part) {
				t.Errorf("the dead call's error %q does not say %q", text, part)
			}
		}
		if strings.Contains(text, "OnDead") {
			t.Errorf("the error %q says that nothing follows on_failure, for which nobody asked", text)
		}
		if dead["id"] != "order-17" {
			t.Errorf("dead id %v", dead["id"])
		}
		// A replay begins with the call itself.
		if a := run.do("POST", "/v1/dead_set/replay", `{"stream":"calls","count":1}`); a.status != 200 {
			t.Fatalf("replay: %d %v", a.status, a.json)
		}
		eventually(t, "the replay", func() bool { return len(r.requests()) > 6 })
		if got := r.requests()[6]; got.path != "/hook" {
			t.Errorf("the replay called %s", got.path)
		}
		eventually(t, "it is dead once more, of all its tries", func() bool { return len(r.requests()) == 12 && len(run.dead()) == 1 })
	})
}

// A call that asked for nothing beside itself tells of itself alone.
func TestADeadCallWithoutOnFailureTellsItsFailureAndNothingElse(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		r := newReceiver(t, always(500))
		run := w.start()
		run.do("POST", "/calls", fmt.Sprintf(`{"id":"order-17","request":{"url":%q},"waits":[]}`, r.url("/hook")))
		eventually(t, "the call is dead", func() bool { return len(run.dead()) == 1 })
		if text := fmt.Sprint(run.dead()[0]["error"]); !strings.HasSuffix(text, "status 500: the answer to /hook") || strings.Contains(text, "OnDead") {
			t.Errorf("the dead call's error is %q", text)
		}
	})
}

func TestTwoCallsWithOneIDAreTwoCallsAndTellTheirSuccess(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		r := newReceiver(t, always(204))
		run := w.start()
		for range 2 {
			body := fmt.Sprintf(`{"id":"order-17","request":{"url":%q},"waits":[],"on_success":{"url":%q}}`, r.url("/hook"), r.url("/done"))
			if a := run.do("POST", "/calls", body); a.status != 202 {
				t.Fatalf("%d %v", a.status, a.json)
			}
		}
		count := func(path string) (n int) {
			for _, got := range r.requests() {
				if got.path == path {
					n++
				}
			}
			return n
		}
		eventually(t, "both calls and their on_success", func() bool { return count("/hook") >= 2 && count("/done") >= 2 })
		if n := len(r.requests()); n != 4 {
			t.Errorf("%d requests, want 4", n)
		}
	})
}

func TestADownHostBurnsNoTries(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		address := testbroker.Address(t)
		_, port, _ := strings.Cut(address, ":")
		run := w.start()
		const calls = 12
		for i := range calls {
			// Two tries each: without the breaker all would be dead after a second.
			body := fmt.Sprintf(`{"id":"c%d","request":{"url":"http://localhost:%s/hook"},"waits":["1s"]}`, i, port)
			if a := run.do("POST", "/calls", body); a.status != 202 {
				t.Fatalf("%d %v", a.status, a.json)
			}
		}
		eventually(t, "each call was put off, and some twice", func() bool { return run.snoozed() > calls })
		listener, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan string, 10*calls)
		server := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) { got <- req.Header.Get("Webhook-Id") })}
		go func() { _ = server.Serve(listener) }()
		t.Cleanup(func() { _ = server.Close() })
		seen := map[string]bool{}
		limit := time.After(2 * time.Minute)
		for len(seen) < calls {
			select {
			case id := <-got:
				seen[id] = true
			case <-limit:
				t.Fatalf("%d of %d calls were made; dead: %v", len(seen), calls, run.dead())
			}
		}
		if dead := run.dead(); len(dead) > 0 {
			t.Errorf("%d calls are dead", len(dead))
		}
	})
}

func TestWhoeverMayNotUseTheAPIMayNotHaveCallsMade(t *testing.T) {
	w := newWorld(t, "")
	const token = "the-token-that-stands-alone"
	run := w.start("SERVER_TOKEN=" + token)
	for _, path := range []string{"/calls", "/retry", "/retry_workflow"} {
		if a := run.do("POST", path, "{}"); a.status != 401 {
			t.Errorf("%s without a token: %d", path, a.status)
		}
		if a := run.do("POST", path, "{}", "Authorization", "Bearer "+token); a.status != 400 {
			t.Errorf("%s with the token: %d", path, a.status)
		}
	}
}

func TestACancelledCallIsNotMadeWhereTheQueuesAreEmbedded(t *testing.T) {
	w := newWorld(t, "")
	r := newReceiver(t, always(200))
	run := w.start()
	for _, id := range []string{"cancelled", "other"} {
		if a := run.do("POST", "/calls", fmt.Sprintf(`{"id":%q,"request":{"url":%q},"waits":[],"after":"1s"}`, id, r.url("/"))); a.status != 202 {
			t.Fatal(a)
		}
	}
	if a := run.do("DELETE", "/calls/cancelled", ""); a.status != 200 {
		t.Fatal(a)
	}
	eventually(t, "the other call", func() bool { return len(r.requests()) > 0 })
	eventually(t, "nothing is left", func() bool {
		of := run.do("GET", "/v1/streams", "").json["streams"].([]any)[0].(map[string]any)
		left := of["in_flight"].(float64)
		for _, n := range of["queues"].(map[string]any) {
			left += n.(float64)
		}
		return left == 0
	})
	if all := r.requests(); len(all) != 1 || all[0].header.Get("Webhook-Id") != "other" {
		t.Errorf("requests %v", all)
	}
}

// The program itself, with mistakes of ours among the framework's: all of them at once, a line
// each, from every command, and the exit code of a configuration.
func TestAllMistakesOfTheSettingsAreToldAtOnceByEveryCommandAndTheExitCodeIsTwo(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(file, []byte("# of partners\nb=whsec_short\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{}, {"config"}, {"topology"}, {"doctor"}} {
		program := exec.CommandContext(t.Context(), os.Args[0], append([]string{embeddedFlag}, args...)...)
		program.Env = append(os.Environ(), childVariable+"=yes",
			"APP_WORKFLOWS_A=5s,soon", "APP_WORKFLOWS_B_C=5s", "APP_WORKFLOWS_D=500h,500h", "APP_TLS_CA_FILE=/nowhere", "APP_TLS_CERT_FILE=/nowhere",
			"APP_BODY_LIMIT=100000000", "APP_HOST_LIMIT=-1", "APP_TIMEOUT=10m", "APP_HOSTS=http://x,*.", "APP_SECRETS=a=b", "APP_SECRETS_FILE="+file,
			"APP_RECORDS=perhaps", "APP_HOST=a.example", "APP_SERVICE_HOST=10.0.0.1", "RETRY_COUNT=3", "RETRY_DELAY=3s", "RETRY_STEP=1s", "STREAMS_CALLS_RETRY_JITTER=0.2", "CONCURRENCY=many", "SERVER_ADDRESS=localhost:0")
		var out, errs strings.Builder
		program.Stdout, program.Stderr = &out, &errs
		err := program.Run()
		if code := program.ProcessState.ExitCode(); code != 2 || out.Len() > 0 {
			t.Errorf("%v: exit code %d, %v: %s", args, code, err, &out)
		}
		for _, part := range []string{
			"\n  APP_WORKFLOWS_A: ", "\n  APP_WORKFLOWS_B: ", "\n  APP_WORKFLOWS_D: ", "\n  APP_SECRETS_FILE: secret \"b\"", "\n  APP_TLS_CA_FILE: ",
			"\n  APP_TLS_CERT_FILE and APP_TLS_KEY_FILE ", "\n  APP_BODY_LIMIT ", "\n  APP_HOST_LIMIT ", "\n  APP_TIMEOUT of ", "\n  APP_TIMEOUT: ",
			"\n  RETRY_COUNT ", "\n  RETRY_DELAY, or STREAMS_CALLS_RETRY_DELAY, of 3s is not for the retrier", "\n  RETRY_STEP, or STREAMS_CALLS_RETRY_STEP, of 1s is not for the retrier", "\n  RETRY_JITTER, or STREAMS_CALLS_RETRY_JITTER, of 0.2 is not for the retrier", "\n  CONCURRENCY: ", "\n  APP_HOSTS: host \"http://x\"", "\n  APP_HOSTS: host \"*\"", "\n  APP_SECRETS: secret \"a\"",
			"\n  APP_HOST is not known; did you mean APP_HOSTS?\n", "settings below app: records (APP_RECORDS) is no true or false",
		} {
			if strings.Count(errs.String(), part) != 1 {
				t.Errorf("%v: %q is not there once:\n%s", args, part, &errs)
			}
		}
		if strings.Contains(errs.String(), "SERVICE_HOST") || strings.Contains(errs.String(), "whsec_short") {
			t.Errorf("%v: a variable of Kubernetes, or a secret: %s", args, &errs)
		}
	}
}

func TestTheUsageAndAMistypedFlagTellOfTheFlagThatEmbeds(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		arg  string
		code int
		told bool
	}{{"--help", 0, true}, {"--embed", 2, true}, {"--version", 0, false}, {"docter", 2, false}} {
		program := exec.CommandContext(t.Context(), os.Args[0], test.arg)
		program.Env = append(os.Environ(), childVariable+"=yes")
		out, err := program.CombinedOutput()
		if code := program.ProcessState.ExitCode(); code != test.code || strings.Contains(string(out), embeddedFlag+", with any command") != test.told {
			t.Errorf("%s: exit code %d, %v: %s", test.arg, code, err, out)
		}
	}
}

func TestSettingsAreReadFromTheFileAndTheEnvironment(t *testing.T) {
	key := func(c string) string {
		return "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(c, 24)))
	}
	x, y, z := key("x"), key("y"), key("z")
	dir := t.TempDir()
	file, keys := filepath.Join(dir, "retrier.yaml"), filepath.Join(dir, "keys")
	for path, text := range map[string]string{
		file: "app:\n  hosts: [a.example]\n  workflows:\n    slow_one: [1m, 2m]\n    default: [5s]\n",
		keys: "# of partners\na=" + x + "\n\nb=" + y + "\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := &retrier{embedded: true}
	cfg, err := actor.Load(r.app(), []string{"CONFIG_FILE=" + file, "APP_SECRETS_FILE=" + keys, "APP_SECRETS=c=" + z, "APP_WORKFLOWS_DEFAULT=7s, 8s", "APP_TIMEOUT=3s", "APP_BODY_LIMIT=2MiB"})
	if err != nil {
		t.Fatal(err)
	}
	s, err := readSettings(cfg)
	if err != nil {
		t.Fatal(err)
	}
	workflows, err := s.workflows()
	if err != nil || fmt.Sprint(workflows) != "map[default:[7s 8s] slow_one:[1m0s 2m0s]]" {
		t.Errorf("workflows %v, %v", workflows, err)
	}
	if secrets, err := s.fileSecrets(); err != nil || fmt.Sprint(s.Secrets, secrets) != fmt.Sprintf("[c=%[3]s] [a=%[1]s b=%[2]s]", x, y, z) {
		t.Errorf("secrets %v, %v, %v", s.Secrets, secrets, err)
	}
	if s.Timeout != 3*time.Second || s.HostLimit != 8 || s.BodyLimit != 2<<20 || fmt.Sprint(s.Hosts) != "[a.example]" {
		t.Errorf("settings %+v", s)
	}
}

func TestARequestIsGivenUpBeforeItsHandler(t *testing.T) {
	r := &retrier{embedded: true}
	_, err := actor.Load(r.app(), []string{"APP_TIMEOUT=1m", "HANDLER_TIMEOUT=30s"})
	if err == nil || !strings.Contains(err.Error(), "APP_TIMEOUT of 1m0s must be below HANDLER_TIMEOUT of 30s") {
		t.Error(err)
	}
}

func TestCallsToHTTPSTrustTheAuthoritiesOfTheSettingAndShowOurCertificate(t *testing.T) {
	t.Parallel()
	shown := make(chan string, 10)
	r := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		shown <- req.TLS.PeerCertificates[0].Subject.CommonName
	}))
	certs := testbroker.NewCerts(t)
	pair, err := tls.LoadX509KeyPair(certs.ServerCert, certs.ServerKey)
	if err != nil {
		t.Fatal(err)
	}
	r.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS12}
	r.StartTLS()
	t.Cleanup(r.Close)
	run := newWorld(t, "").start("APP_TLS_CA_FILE="+certs.CA, "APP_TLS_CERT_FILE="+certs.ClientCert, "APP_TLS_KEY_FILE="+certs.ClientKey)
	body := fmt.Sprintf(`{"request":{"url":"https://localhost:%d/"},"waits":[]}`, r.Listener.Addr().(*net.TCPAddr).Port)
	if a := run.do("POST", "/calls", body); a.status != 202 {
		t.Fatal(a)
	}
	select {
	case <-shown:
	case <-time.After(time.Minute):
		t.Fatalf("the call was not made; dead: %v", run.dead())
	}
}
