package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestWhatKilledTheProcessAndIsNamedByItsIDIsNotLeftOutInSilence(t *testing.T) {
	address, dead := serve(t, "")
	for flags, want := range map[string]int{"--id a": exitLook, "--id a --dry-run": exitOK, "--all": exitOK, "--error away": exitOK} {
		dead.pile.set(0, false) // none but the two that are left out
		out, errs, code := command(t, address, append([]string{"dead-set", "replay", "-s", "orders", "--yes"}, strings.Fields(flags)...)...)
		if code != want || !strings.Contains(out+errs, "left out: 2 that killed the process (--include-crash-loop takes them, too)") {
			t.Errorf("%s: exit %d, %q, %q", flags, code, out, errs)
		}
	}
}

// A script could not tell a slip of the pen from what is done.
func TestAnIDOrACauseThatIsNotFoundIsNotTakenForDone(t *testing.T) {
	const why = "mistyped, or no longer there"
	for _, test := range []struct {
		flags         string
		match, unseen int
		code          int
		says          string
	}{
		{"--id nope", 0, 0, exitLook, "no message with the id nope was found: " + why},
		{"--id nope --id no", 0, 0, exitLook, "no message with the id nope, no was found: " + why},
		{"--group 0123456789ab", 0, 0, exitLook, "no message of the cause 0123456789ab was found: " + why},
		{"--id a --id nope", 1, 0, exitLook, "of 2 ids at least 1 was not found: " + why},
		{"--id a --id nope --detach", 1, 0, exitLook, "of 2 ids at least 1 was not found: " + why},
		{"--id a --id a", 1, 0, exitOK, ""},
		{"--id nope --dry-run", 0, 0, exitOK, ""},
		{"--group 0123456789ab --error away", 0, 0, exitOK, ""},
		{"--id nope", 0, 100, exitLook, "100 were not looked at"},
	} {
		for _, action := range []string{"replay", "delete"} {
			address, dead := serve(t, "") // of its own: what is detached goes on
			dead.pile.match, dead.pile.unseen, dead.pile.whole = test.match, test.unseen, true
			_, errs, code := command(t, address, append([]string{"dead-set", action, "-s", "orders", "--yes"}, strings.Fields(test.flags)...)...)
			if code != test.code || !strings.Contains(errs, test.says) || strings.Contains(errs, why) != strings.Contains(test.says, why) {
				t.Errorf("%s %s: exit %d, %q", action, test.flags, code, errs)
			}
		}
	}
}

func TestAReplayByCountNamesTheCommandsForWhatItLeavesOut(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { // in the words of /v1
		_, _ = io.WriteString(w, `{"message":"replayed 0 of 1 messages of orders; 1 that killed the process were left out: stepwell dead-set list -s orders --reason crash_loop shows them","left":3}`)
	}))
	defer s.Close()
	out, errs, code := command(t, s.URL, "dead-set", "replay", "-s", "orders", "-n", "1")
	if code != exitOK || !strings.Contains(out, "1 that killed the process were left out: stepwell --address "+s.URL+" dead-set list -s orders --reason crash_loop shows them; 3 left") {
		t.Errorf("exit %d, %q, %q", code, out, errs)
	}
}

func TestAPeekWithoutAnythingSaysAllThatIsMissing(t *testing.T) {
	for args, missing := range map[string][]string{"": {"--stream", "--count"}, "-n 3": {"--stream"}, "-s orders": {"--count"}} {
		_, errs, code := command(t, "127.0.0.1:1", append([]string{"dead-set", "peek"}, strings.Fields(args)...)...)
		errs, _, _ = strings.Cut(errs, "usage:")
		if code != exitUsage || strings.Contains(errs, "--stream") != strings.Contains(strings.Join(missing, " "), "--stream") || strings.Contains(errs, "--count") != strings.Contains(strings.Join(missing, " "), "--count") {
			t.Errorf("%q: exit %d, %s", args, code, errs)
		}
	}
}
