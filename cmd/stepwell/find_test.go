package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestCausesAreATableWithTheirLastHour(t *testing.T) {
	address, dead := serve(t, "")
	out, errs, code := command(t, address, "dead-set", "groups", "-s", "orders", "--error", "status 503", "--died-from", "2h")
	for _, want := range []string{"GROUP", "7f3a91c2b04d  6", "*url.Error", "status <n>", ".__________#", "orders.v1:0:7", "-             1"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	if code != exitOK || errs != "the oldest 7 of 9 were looked at\n" || dead.query.Filter.String() != `died_from="2h" error="status 503"` {
		t.Errorf("exit %d, %q, asked for %s", code, errs, dead.query.Filter)
	}
	if out, _, _ := command(t, address, "dead-set", "groups", "-s", "orders", "--json"); strings.Count(out, "\n") != 2 || !strings.HasPrefix(out, `{"group":"7f3a91c2b04d"`) {
		t.Errorf("as JSON: %s", out)
	}
}

func TestALongErrorMakesOnlyItsOwnRowLong(t *testing.T) {
	var out strings.Builder
	a := &actor{out: &out}
	rows := [][]string{group{Group: "7f3a91c2b04d", Error: strings.Repeat("away ", 100)}.row(), group{Group: "0c0ffee0c0ff", Error: "short"}.row()}
	if err := a.groupTable(rows); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	if len(lines[0]) > 200 || len(lines[2]) > 200 || !strings.Contains(lines[1], "away away") {
		t.Errorf("%s", &out)
	}
}

func TestATimeAsATableShowsItMayBeGivenBack(t *testing.T) {
	address, dead := serve(t, "")
	at := time.Date(2026, 7, 1, 3, 4, 5, 0, time.FixedZone("here", 3600))
	for flag, name := range map[string]string{"--died-from": "died_from", "--died-to": "died_to"} {
		_, errs, code := command(t, address, "dead-set", "list", "-s", "orders", flag, when(at))
		if want := fmt.Sprintf("%s=%q", name, at.UTC().Format(time.RFC3339)); code != exitOK || dead.query.Filter.String() != want {
			t.Errorf("exit %d, %s, asked for %s, want %s", code, errs, dead.query.Filter, want)
		}
	}
}

func TestAListAsksForPagesUntilItHasWhatWasWished(t *testing.T) {
	address, dead := serve(t, "")
	all := []string{"--group=7f3a91c2b04d", "--reason=gone", "--error=b", "--error-re=c", "--error-type=d", "--topic=e", "--partition=1", "--offset-from=2", "--offset-to=3", "--key=f", "--key-prefix=g",
		"--died-from=2h", "--died-to=1h", "--attempts-min=4", "--replays-max=5", "--replayed-by=op_6", "--trace-id=h", "--value=i", "--header", "x=y,z=1", "--value-at", "a.b=c=d"}
	out, errs, code := command(t, address, append([]string{"dead-set", "list", "-s", "orders", "-n", "600"}, all...)...)
	const asked = `attempts_min="4" died_from="2h" died_to="1h" error="b" error_re="c" error_type="d" group="7f3a91c2b04d" header.x="y,z=1" key="f" key_prefix="g" ` +
		`offset_from="2" offset_to="3" partition="1" reason="gone" replayed_by="op_6" replays_max="5" topic="e" trace_id="h" value="i" value.a.b="c=d"`
	if code != exitOK || dead.query.Filter.String() != asked || dead.query.Limit != 100 || strings.Count(out, "\n") != 601 || strings.Contains(out, "\x1b") {
		t.Errorf("exit %d, %d lines, asked for %s, at last %d", code, strings.Count(out, "\n"), dead.query.Filter, dead.query.Limit)
	}
	if errs != "600 of the 700 that match\nthe oldest 1200 of 1207 were looked at\n" {
		t.Errorf("%q", errs)
	}
	if out, errs, code := command(t, address, "dead-set", "list", "-s", "orders", "-n", "9999", "--json"); code != exitOK || strings.Count(out, "\n") != 700 || strings.Contains(errs, "match") {
		t.Errorf("all as JSON: %d, %d lines, %s", code, strings.Count(out, "\n"), errs)
	}
	for args, says := range map[string]string{
		"-n 0": "--limit", "--header x": "--header must be NAME=TEXT", "--value-at =x": "--value-at must be", "--partition -1": "partition", "--error-re (": "RE2", "--grup x": "grup",
	} {
		if _, errs, code := command(t, address, append(strings.Fields("dead-set list -s orders"), strings.Fields(args)...)...); code == exitOK || !strings.Contains(errs, says) {
			t.Errorf("%s: %d %s", args, code, errs)
		}
	}
}

func TestAnExportIsWrittenAsItComesAndOneThatIsNotWholeIsAnError(t *testing.T) {
	address, dead := serve(t, "")
	for _, step := range []struct {
		unseen    int
		breaks    bool
		code      int
		out, errs string
	}{
		{0, false, exitOK, "{\"id\":\"a\"}\n{\"id\":\"b\"}\n", "2 of the 9 dead messages of orders\n"},
		{5, false, exitLook, "{\"id\":\"a\"}\n{\"id\":\"b\"}\n", "5 of 9 messages were not looked at"},
		{0, true, exitFailed, "{\"id\":\"aaa", "broke off"},
	} {
		dead.unseen, dead.breaks = step.unseen, step.breaks
		out, errs, code := command(t, address, "dead-set", "export", "-s", "orders", "--error", "away")
		if code != step.code || !strings.HasPrefix(out, step.out) || !strings.Contains(errs, step.errs) || dead.query.Filter.String() != `error="away"` {
			t.Errorf("exit %d, %q, %q", code, out, errs)
		}
	}
	if out, errs, code := command(t, address, "dead-set", "export", "-s", "orders", "--group", "x"); code != exitFailed || out != "" || !strings.Contains(errs, "400") {
		t.Errorf("exit %d, %q, %q", code, out, errs)
	}
}

func TestAMessageIsShownWithItsTriesAndNothingThatATerminalObeys(t *testing.T) {
	address, _ := serve(t, "")
	out, errs, code := command(t, address, "dead-set", "show", "-s", "orders", "orders/v1:0:7")
	for _, want := range []string{"record   orders.v1, partition 3, offset 7\n", "cause    7f3a91c2b04d\n", "error    no stock\n", "copies   2\n", "try 1    -  0.25 ms  shipping-7d9 v1.8  https://traces/1  *url.Error  first\n", "try 2    -   [31mlast\n", "value    12 bytes, json\n", "\n{\n  \"note\": \"", "\nmain.handle()\n\tmain.go:3\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	if code != exitOK || errs != "" || strings.ContainsAny(out, "\x1b\u009b") {
		t.Errorf("%d %q", code, errs)
	}
	if out, _, _ := command(t, address, "dead-set", "show", "-s", "orders", "orders/v1:0:7", "--part", "value"); out != "\x00whole" {
		t.Errorf("its bytes: %q", out)
	}
	if _, errs, code := command(t, address, "dead-set", "show", "-s", "orders", "other"); code != exitFailed || !strings.Contains(errs, "404") {
		t.Errorf("%d %s", code, errs)
	}
}

func TestAMessageIsShownWithTheQueueThatItCameFromAndAJobWithNone(t *testing.T) {
	t.Parallel()
	for want, m := range map[string]one{
		"record   orders.v1, partition 0, offset 0\n":           {dead: dead{Topic: "orders.v1"}},
		"queue    payments\n":                                   {dead: dead{Queue: "payments", RoutingKey: "payments"}},
		"queue    q, exchange events, routing key payment.de\n": {dead: dead{Queue: "q", Exchange: "events", RoutingKey: "payment.de"}},
		"id       job\nkey      -\n":                            {dead: dead{ID: "job"}},
	} {
		if text := m.text(); !strings.Contains(text, want) || strings.Contains(text, "record") != (m.Topic != "") {
			t.Errorf("%q is not in, or a record is in\n%s", want, text)
		}
	}
}

func TestWhatIsHiddenIsCalledSoAndNotNull(t *testing.T) {
	t.Parallel()
	m := dead{ID: "a", Value: []byte("null"), Hidden: true}
	if row := m.row(); !slices.Contains(row, "(hidden)") || slices.Contains(row, "null") {
		t.Errorf("%q", row)
	}
	if text := (&one{dead: m}).text(); !strings.Contains(text, "DEAD_SET_VALUES") || strings.Contains(text, "null") {
		t.Error(text)
	}
	if keys(nil) != "(hidden)" {
		t.Error(keys(nil))
	}
}
