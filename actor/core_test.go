package actor_test

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// testdata/core is never edited. Where this fails, programs of users fail too.
func TestAProgramThatUsesOnlyTheCoreRunsUnchanged(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "core")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", path, "./testdata/core").CombinedOutput(); err != nil {
		t.Fatalf("it does not compile: %v\n%s", err, out)
	}
	var out, log book
	cmd := exec.CommandContext(t.Context(), path)
	cmd.Env = append(os.Environ(), "STREAMS_ORDERS_TOPICS=orders.v1", "RETRY_COUNT=2", "RETRY_DELAY=300ms", "SERVER_ADDRESS=127.0.0.1:0", "LOG_FORMAT=json")
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it has ended, unless the test failed
		if t.Failed() {
			t.Logf("it printed:\n%s\nand logged:\n%s", &out, &log)
		}
	})
	listens := regexp.MustCompile(`"HTTP server listens","address":"(.*?)"`)
	eventually(t, "its address", func() bool { return listens.MatchString(log.String()) })
	at := "http://" + listens.FindStringSubmatch(log.String())[1]
	get := func(path string) (code int, body string) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(text)
	}
	eventually(t, "all is done or dead", func() bool {
		code, body := get("/v1/dead_set?count=10&topic-entity=orders")
		return code == http.StatusOK && hasAll(body, `"no such order"`, `"always"`) && hasAll(out.String(), "fails once 2\n")
	})
	if code, body := get("/hello"); code != http.StatusOK || body != "hello" {
		t.Errorf("its route answers %d %s", code, body)
	}
	if code, body := get("/readyz"); code != http.StatusOK {
		t.Errorf("/readyz answers %d %s", code, body)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	if !log.said("the program starts") {
		t.Error("the logger it has does not log")
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if begin, end := lines[0], lines[len(lines)-1]; begin != "start shop" || end != "stop" {
		t.Errorf("it printed %q first and %q last", begin, end)
	}
	want := []string{"works 1", "fails once 1", "fails 1", "is dead 1", "is skipped 1", "fails once 2", "fails 2", "fails 3"}
	var calls, first []string
	for _, line := range lines {
		if call, found := strings.CutPrefix(line, "orders k "); found {
			calls = append(calls, call)
			if strings.HasSuffix(call, " 1") {
				first = append(first, call)
			}
		}
	}
	if !slices.Equal(first, want[:5]) {
		t.Errorf("first tries %q, want %q", first, want[:5])
	}
	slices.Sort(calls)
	slices.Sort(want)
	if !slices.Equal(calls, want) {
		t.Errorf("calls %q, want %q", calls, want)
	}
}
