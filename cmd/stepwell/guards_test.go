package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell/internal/outcomes"
)

// grown says what becomes of messages that are replayed.
func (p *pile) grown(became outcomes.Tally) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.became = became
}

// guards are those of the last operation that was asked for; turns beyond a canary do not have it.
func (p *pile) guards() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.sampled[len(p.sampled)-1]
	return fmt.Sprint(r.Canary, " ", time.Duration(r.CanaryWait), " ", r.StopAt)
}

func TestAReplayIsHeldBackAsItsFlagsSayAndTellsWhatBecameOfIt(t *testing.T) {
	address, dead := serve(t, "")
	canary := outcomes.Tally{Handled: 5, Canary: []string{"a", "b", "c"}}
	for _, step := range []struct {
		flags  string
		became outcomes.Tally
		code   int
		says   string
		wish   string // canary, its time, limit
	}{
		{"", outcomes.Tally{Handled: 4, Recovered: 1, Failed: 1}, exitLook, "somebody has to look: of what was replayed 1 failed a try, and 0 died: stepwell --address " + address + " dead-set list -s orders --replayed-by op_", "0 0s "},
		{"-c slow", outcomes.Tally{Handled: 4, Failed: 1, Died: 1}, exitLook, "done, 5 of 5; 4 handled, 1 failed a try, 1 died, 0 not known yet", "0 0s "},
		{"-c slow --json", outcomes.Tally{Handled: 4, Failed: 1, Died: 1}, exitLook, "dead-set list -s orders -c slow --replayed-by op_", "0 0s "},
		{"--canary 3", canary, exitOK, "done, 5 of 5; 5 handled, 0 failed a try, 0 died, 0 not known yet", "3 2m0s "},
		{"--canary 3 --canary-wait 90s --stop-at 5%", canary, exitOK, "done, 5 of 5", "3 1m30s 5%"},
		{"--canary 3 --canary-wait 1ms", outcomes.Tally{Handled: 2, Canary: []string{"a", "b"}}, exitLook, "of the 3 messages of the canary 2 were handled within 1ms, and nobody told of the others", "3 1ms "},
		{"--canary 3", outcomes.Tally{Handled: 2, Failed: 1, Died: 1}, exitLook, "failed a try or died: look at why, mend that, then resume", "3 2m0s "},
		{"--stop-at 2 --rate 1/s", outcomes.Tally{Handled: 2, Failed: 2}, exitLook, "of 4 messages 2 failed a try, and stop_at is 2", "0 0s 2"},
	} {
		dead.pile.set(5, false)
		dead.pile.grown(step.became)
		args := slices.Concat([]string{"dead-set", "replay", "-s", "orders", "--all", "--yes"}, strings.Fields(step.flags))
		out, errs, code := command(t, address, args...)
		if code != step.code || !strings.Contains(out+errs, step.says) {
			t.Errorf("%s: exit %d, %q, %q", step.flags, code, out, errs)
		}
		if wish := dead.pile.guards(); wish != step.wish {
			t.Errorf("%s: it was asked for with %q", step.flags, wish)
		}
	}
}

func TestAGuardThatIsMissingOrAbsurdIsRefusedAndNothingIsReplayed(t *testing.T) {
	address, dead := serve(t, "")
	dead.pile.set(5, false)
	for flags, code := range map[string]int{
		"--canary 0": exitUsage, "--canary -1": exitUsage, "--canary=": exitUsage, "--canary ten": exitUsage, "--canary 5%": exitUsage, "--canary-wait 2m": exitUsage, "--canary 3 --canary-wait=": exitUsage, "--stop-at=": exitUsage,
		"--canery 3": exitUsage, "--stopat 5": exitUsage,
		// The actor knows what is too much, and says it.
		"--canary 1001": exitFailed, "--canary 3 --canary-wait 2h": exitFailed, "--canary 3 --canary-wait soon": exitFailed, "--stop-at 0": exitFailed, "--stop-at 101%": exitFailed, "--stop-at half": exitFailed, "--stop-at 9999999999": exitFailed,
	} {
		args := slices.Concat([]string{"dead-set", "replay", "-s", "orders", "--all", "--yes"}, strings.Fields(flags))
		if out, errs, got := command(t, address, args...); got != code || out != "" || errs == "" {
			t.Errorf("%s: exit %d, %q, %q", flags, got, out, errs)
		}
	}
	for _, flags := range []string{"--canary 1", "--canary 1 --canary-wait 1m", "--stop-at 5"} {
		for _, of := range []string{"replay -n 1", "delete --all --yes"} {
			args := slices.Concat([]string{"dead-set"}, strings.Fields(of), []string{"-s", "orders"}, strings.Fields(flags))
			if out, errs, code := command(t, address, args...); code != exitUsage || out != "" {
				t.Errorf("%s %s: exit %d, %q, %q", of, flags, code, out, errs)
			}
		}
	}
	if len(dead.pile.asked) > 0 || dead.left != 3 {
		t.Errorf("%d asked, %d left", len(dead.pile.asked), dead.left)
	}
}

func TestWhoReplaysIntoAPausedStreamIsTold(t *testing.T) {
	address, dead := serve(t, "")
	for _, step := range []struct{ before, args, note string }{
		{"resume orders", "dead-set replay -s orders -n 1", ""},
		{"pause orders", "dead-set replay -s orders -n 1", "orders is paused here by loopback since 2026-01-02T15:04:05Z: nothing is handled in this process until it is resumed\n"},
		{"pause --app orders", "dead-set replay -s orders --channel slow -n 1 --json", "orders is paused here by loopback since 2026-01-02T15:04:05Z, paused in the app by loopback: nothing is handled until it is resumed\n"},
		{"pause orders", "dead-set delete -s orders -n 1 --yes", ""}, // a delete waits for nobody
	} {
		if _, errs, code := command(t, address, strings.Fields(step.before)...); code != exitOK {
			t.Fatalf("%s: exit %d, %s", step.before, code, errs)
		}
		if _, errs, code := command(t, address, strings.Fields(step.args)...); code != exitOK || errs != step.note {
			t.Errorf("%s, %s: exit %d, %q", step.before, step.args, code, errs)
		}
	}
	if dead.left != 0 {
		t.Errorf("%d are left", dead.left)
	}
}
