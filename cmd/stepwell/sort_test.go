package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/internal/operations"
	"github.com/stepwell/stepwell/server"
)

func TestADeadSetIsSortedAndBroughtBackAndThatIsWatched(t *testing.T) {
	address, dead := serve(t, "")
	for args, want := range map[string]operations.Request{
		"sort -s orders":                        {Action: "sort", Target: operations.Target{Stream: "orders"}},
		"sort -s orders --force --note tonight": {Action: "sort", Target: operations.Target{Stream: "orders"}, Force: true, Note: "tonight"},
		"unsort -s orders -c slow":              {Action: "unsort", Target: operations.Target{Stream: "orders", Channel: "slow"}},
	} {
		dead.pile.set(5, false)
		out, errs, code := command(t, address, append([]string{"dead-set"}, strings.Fields(args)...)...)
		got := dead.pile.last(t)
		if code != exitOK || !strings.Contains(out, "done, 5 of 5") || got.Action != want.Action || got.Target != want.Target || got.Force != want.Force || got.Note != want.Note || !got.Select.All {
			t.Errorf("%s: exit %d, %s%s, asked for %+v", args, code, out, errs, got)
		}
	}
	for _, args := range []string{"sort", "sort -s orders --rate=", "unsort -s orders --force"} {
		if _, errs, code := command(t, address, append([]string{"dead-set"}, strings.Fields(args)...)...); code != exitUsage {
			t.Errorf("%s: exit %d, %s", args, code, errs)
		}
	}
}

func TestALookThatDidNotSeeAllSortsFirstWhereSomebodyWantsThat(t *testing.T) {
	address, dead := serve(t, "")
	for args, yes := range map[string]bool{"groups -s orders --sort": false, "groups -s orders": true, "list -s orders -c slow --sort": false} {
		dead.pile.set(5, false)
		var out, errs bytes.Buffer
		var asked string
		ask := func(question string) error { asked = question; return nil }
		code := run(t.Context(), append([]string{"--address", address, "dead-set"}, strings.Fields(args)...), ask, &out, &errs)
		if got := dead.pile.last(t); code != exitOK || got.Action != "sort" || yes != strings.Contains(asked, "Sort the others") {
			t.Errorf("%s: exit %d, asked %q, %+v, %s", args, code, asked, got, &errs)
		}
		if strings.Contains(out.String(), "done") || !strings.Contains(errs.String(), "done, 5 of 5") {
			t.Errorf("%s: the answer is %s, beside it %s", args, &out, &errs)
		}
	}
	// Where the sort is refused, what was seen is shown, and why the rest was not.
	dead.pile.refused = fmt.Errorf("%w: 1 more handle messages of orders", server.ErrOthers)
	for _, args := range []string{"groups -s orders --sort", "groups -s orders", "list -s orders -c slow --sort"} {
		dead.pile.set(5, false)
		var out, errs bytes.Buffer
		yes := func(string) error { return nil }
		got := run(t.Context(), append([]string{"--address", address, "dead-set"}, strings.Fields(args)...), yes, &out, &errs)
		if got != exitFailed || !strings.Contains(errs.String(), "the others were not sorted") || !strings.Contains(errs.String(), "--force") || out.Len() == 0 {
			t.Errorf("%s: exit %d, %s, and %s", args, got, &out, &errs)
		}
	}
	dead.pile.refused = nil
	// Who says no, or cannot be asked, gets what was seen.
	for _, ask := range []asker{nil, func(string) error { return errNo }} {
		dead.pile.set(5, false)
		var out, errs bytes.Buffer
		code := run(t.Context(), []string{"--address", address, "dead-set", "groups", "-s", "orders"}, ask, &out, &errs)
		if code != exitOK || dead.pile.match != 5 || !strings.Contains(errs.String(), "the oldest 7 of 9 were looked at") {
			t.Errorf("exit %d, %s", code, &errs)
		}
	}
}
