package main

import (
	"bytes"
	"fmt"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell/internal/operations"
)

const threeDays = 72 * time.Hour

func TestADeleteSaysWhetherItIsForGoodOrIntoTheTrashAndHowToUndoIt(t *testing.T) {
	for _, test := range []struct {
		keep      time.Duration
		flags     string
		question  string
		undo      bool
		intoTrash int
	}{
		{threeDays, "--all", "Delete these 5 messages of orders, into the trash?", true, 0},
		{threeDays, "--all --forever", "Delete these 5 messages of orders for good?", false, 0},
		{0, "--all", "Delete these 5 messages of orders for good?", false, 0},
		{threeDays, "-n 2", "Delete the 2 oldest of the 3 dead messages of orders, into the trash?", true, 1},
		{threeDays, "-n 2 --forever", "Delete the 2 oldest of the 3 dead messages of orders for good?", false, 0},
		{0, "-n 2", "Delete the 2 oldest of the 3 dead messages of orders for good?", false, 0},
	} {
		address, dead := serveKeeping(t, test.keep, "")
		dead.pile.set(5, false)
		var asked string
		var out, errs bytes.Buffer
		args := append(strings.Fields("dead-set delete -s orders --address "+address), strings.Fields(test.flags)...)
		code := run(t.Context(), args, func(question string) error { asked = question; return nil }, &out, &errs)
		undo := regexp.MustCompile(`stepwell --address \S+ dead-set undo op_[0-9a-z]+ -s orders brings it back`).MatchString(out.String())
		if code != exitOK || asked != test.question || undo != test.undo || len(dead.trashed) != test.intoTrash {
			t.Errorf("%s, kept %s: exit %d, asked %q, %q %q, %v", test.flags, test.keep, code, asked, &out, &errs, dead.trashed)
		}
	}
}

// Behind one address there may be processes of two releases, or of two configurations.
func TestWhatAPersonWasToldGoesToTheTrashIsNotDeletedForGoodByAProcessThatHasNone(t *testing.T) {
	for _, flags := range []string{"--all", "-n 2"} {
		keeping, one := serveKeeping(t, threeDays, "")
		without, other := serve(t, "")
		one.pile.set(5, false)
		other.pile.set(5, false)
		asked := false
		front := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
			to := keeping
			if asked {
				to = without
			}
			r.SetURL(&url.URL{Scheme: "http", Host: strings.TrimPrefix(to, "http://")})
		}})
		t.Cleanup(front.Close)
		var out, errs bytes.Buffer
		args := append(strings.Fields("dead-set delete -s orders --address "+front.URL), strings.Fields(flags)...)
		code := run(t.Context(), args, func(question string) error {
			asked = strings.HasSuffix(question, ", into the trash?")
			return nil
		}, &out, &errs)
		if code != exitFailed || !asked || !strings.Contains(errs.String(), "there is no trash") || other.left != 3 || len(other.pile.asked) > 0 {
			t.Errorf("%s: exit %d, %q %q, %d left", flags, code, &out, &errs, other.left)
		}
	}
}

func TestTheTrashIsShownWithWhoDeletedWhatAndUntilWhenItIsKept(t *testing.T) {
	address, dead := serveKeeping(t, threeDays, "")
	out, errs, code := command(t, address, strings.Fields("dead-set trash -s orders --operation op_1 --error away -n 7")...)
	if code != exitOK || errs != "" || !strings.Contains(out, "KEPT UNTIL") || !strings.Contains(out, "op_1") || !strings.Contains(out, "kept 72h0m0s") {
		t.Errorf("exit %d, %q, %q", code, out, errs)
	}
	out, _, code = command(t, address, strings.Fields("dead-set trash -s orders --json")...)
	if code != exitOK || !strings.HasPrefix(out, `{"id":"a"`) || !strings.Contains(out, `"expires_at":"2026-07-01T03:04:05Z"`) {
		t.Errorf("exit %d, %q", code, out)
	}
	for _, args := range []string{"-s orders --operation=", "-s orders -n 0", "-s orders --error="} {
		if _, _, code := command(t, address, strings.Fields("dead-set trash "+args)...); code != exitUsage {
			t.Errorf("%s: exit %d", args, code)
		}
	}
	if len(dead.trashed) > 0 {
		t.Errorf("a look deleted: %v", dead.trashed)
	}
}

func TestAnUndoRestoresWhatOneOperationDeletedOnceAPersonSaidYes(t *testing.T) {
	address, dead := serveKeeping(t, threeDays, "")
	dead.pile.set(5, false)
	out, errs, code := command(t, address, strings.Fields("dead-set delete -s orders -c slow --all --yes")...)
	id := regexp.MustCompile(`op_[0-9a-z]+`).FindString(out)
	if code != exitOK || id == "" {
		t.Fatalf("exit %d, %q, %q", code, out, errs)
	}
	for name, step := range map[string]struct {
		args     string
		ask      asker
		code     int
		question string
	}{
		"no":                       {id, func(string) error { return errNo }, exitFailed, ""},
		"nobody":                   {id, nil, exitUsage, ""},
		"a dry run":                {id + " --dry-run", nil, exitOK, ""},
		"a yes":                    {id, func(string) error { return nil }, exitOK, "Move these 5 messages back into the dead set of orders channel slow?"},
		"of a delete by count":     {"op_0000 -s orders --yes", nil, exitOK, ""},
		"of one that nobody knows": {"op_0000 --yes", nil, exitFailed, ""},
		"of one without a name":    {"", nil, exitUsage, ""},
		"of no stream":             {"op_0000 --stream= --yes", nil, exitUsage, ""},
	} {
		dead.pile.set(5, false)
		var asked string
		ask := step.ask
		if ask != nil {
			ask = func(question string) error { asked = question; return step.ask(question) }
		}
		var out, errs bytes.Buffer
		code := run(t.Context(), append(strings.Fields("dead-set undo --address "+address), strings.Fields(step.args)...), ask, &out, &errs)
		if code != step.code || step.question != "" && asked != step.question {
			t.Errorf("%s: exit %d, asked %q, %q, %q", name, code, asked, &out, &errs)
		}
		begun := len(dead.pile.asked) > 0
		if does := step.code == exitOK && !strings.Contains(step.args, "dry-run"); begun != does {
			t.Errorf("%s: something was done: %t", name, begun)
		} else if does {
			if r := dead.pile.last(t); r.Action != operations.Restore || fmt.Sprint(r.Select.Operation) != strings.Fields(step.args)[0] || *r.Expect != 5 {
				t.Errorf("%s: %+v", name, r)
			}
		}
		if step.code == exitOK && !strings.Contains(out.String()+errs.String(), "restore: 5 of the 9 messages in the trash of orders") {
			t.Errorf("%s: it shows %q %q", name, &out, &errs)
		}
	}
}

// A delete by count leaves no record that would say of which dead set it was.
func TestTheUndoThatADeletePrintsIsTheWholeCommand(t *testing.T) {
	address, dead := serveKeeping(t, threeDays, "")
	for flags, where := range map[string]string{"-n 1": " -s orders", "-n 1 -c slow": " -s orders -c slow", "--all": " -s orders", "--all -c slow": " -s orders -c slow"} {
		dead.pile.set(5, false)
		out, errs, code := command(t, address, strings.Fields("dead-set delete --yes -s orders "+flags)...)
		printed := regexp.MustCompile(`stepwell (.*dead-set undo op_[0-9a-z]+.*) brings it back`).FindStringSubmatch(out)
		if code != exitOK || printed == nil || !strings.HasSuffix(printed[1], where) || strings.Contains(where, " -c") != strings.Contains(printed[1], " -c") {
			t.Fatalf("%s: exit %d, %q, %q", flags, code, out, errs)
		}
		dead.pile.set(5, false)
		var undone, wrong bytes.Buffer
		code = run(t.Context(), append(strings.Fields(printed[1]), "--yes"), nil, &undone, &wrong)
		if code != exitOK || !strings.Contains(undone.String(), "done, 5 of 5") {
			t.Errorf("%s: exit %d, %q, %q", printed[1], code, &undone, &wrong)
		}
		if r := dead.pile.last(t); r.Stream != "orders" || (r.Channel == "slow") != strings.Contains(flags, "slow") {
			t.Errorf("%s: %+v", printed[1], r.Target)
		}
	}
}

func TestAnUndoThatFindsNothingSaysWhereItLookedAndFails(t *testing.T) {
	address, dead := serveKeeping(t, threeDays, "")
	for flags, says := range map[string]string{
		"-s orders":                   "nothing of op_0000 is in the trash of orders; other trashes of that stream are those of orders channel slow",
		"-s orders --dry-run":         "nothing of op_0000 is in the trash of orders; ",
		"-s orders --dry-run --json":  "nothing of op_0000 is in the trash of orders; ",
		"-s orders --channel slow -y": "nothing of op_0000 is in the trash of orders channel slow; other trashes of that stream are those of orders",
	} {
		dead.pile.set(0, false)
		if out, errs, code := command(t, address, strings.Fields("dead-set undo op_0000 "+flags)...); code != exitFailed || !strings.Contains(errs, "stepwell: "+says) || len(dead.pile.asked) > 0 {
			t.Errorf("%s: exit %d, %q, %q", flags, code, out, errs)
		}
	}
}
