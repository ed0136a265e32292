package main

import (
	"bytes"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestReportCountsEveryWayInWhichATestCanEnd(t *testing.T) {
	const start = `{"Action":"run","Package":"p","Test":"A"}` + "\n"
	for _, c := range []struct {
		name, events            string
		passed, failed, skipped int
		notRun                  map[string]int
		says                    string
	}{
		{
			name: "a test that passes", events: start + `{"Action":"pass","Package":"p","Test":"A"}` + "\n" + `{"Action":"pass","Package":"p"}`,
			passed: 1, says: "ok       0.0s  p  1 tests",
		},
		{
			name: "a failing test with what it printed", events: start + `{"Action":"output","Package":"p","Test":"A","Output":"wrong sum\n"}` + "\n" + `{"Action":"fail","Package":"p","Test":"A"}` + "\n" + `{"Action":"fail","Package":"p"}`,
			failed: 1, says: "wrong sum",
		},
		{
			name: "a skip of its own accord", events: start + `{"Action":"skip","Package":"p","Test":"A"}`,
			skipped: 1,
		},
		{
			name: "a skip for want of a broker", events: start + `{"Action":"output","Package":"p","Test":"A","Output":"    x.go:1: NOT RUN: no Kafka\n"}` + "\n" + `{"Action":"skip","Package":"p","Test":"A"}`,
			skipped: 1, notRun: map[string]int{"no Kafka": 1},
		},
		{
			name: "a process that died in a test", events: start + `{"Action":"fail","Package":"p"}`,
			failed: 1, says: "p A did not end",
		},
		{
			name: "a package that does not build", events: `{"Action":"build-output","ImportPath":"p","Output":"undefined: x\n"}` + "\n" + `{"Action":"fail","Package":"p","FailedBuild":"p"}`,
			failed: 1, says: "undefined: x",
		},
		{
			name: "a run that was ended", events: start,
			failed: 1, says: "p A did not end",
		},
		{
			name:   "a package that says how much it worked",
			events: start + `{"Action":"pass","Package":"p","Test":"A"}` + "\n" + `{"Action":"output","Package":"p","Output":"CPU seconds of this package: 1.50\n"}` + "\n" + `{"Action":"pass","Package":"p","Elapsed":9}`,
			passed: 1, says: "ok       9.0s     1.5s CPU  p  1 tests",
		},
		{
			name: "a report of the race detector that counts as output of a test that passes",
			events: start + `{"Action":"run","Package":"p","Test":"B"}
{"Action":"output","Package":"p","Test":"B","Output":"==================\n"}
{"Action":"output","Package":"p","Test":"B","Output":"WARNING: DATA RACE\n"}
{"Action":"output","Package":"p","Test":"B","Output":"Read at 0x00c0000140a8 by goroutine 7:\n"}
{"Action":"output","Package":"p","Test":"A","Output":"  stepwell/ledger.go:7\n"}
{"Action":"output","Package":"p","Test":"A","Output":"==================\n"}
{"Action":"output","Package":"p","Test":"B","Output":"goes on\n"}
{"Action":"pass","Package":"p","Test":"B"}
{"Action":"output","Package":"p","Test":"A","Output":"    testing.go:1712: race detected during execution of test\n"}
{"Action":"fail","Package":"p","Test":"A"}
{"Action":"fail","Package":"p"}`,
			passed: 1, failed: 1,
			says: "p, while B ran, or tests beside it:\nWARNING: DATA RACE\nRead at 0x00c0000140a8 by goroutine 7:\n  stepwell/ledger.go:7\n==================\n\np A\n    testing.go",
		},
		{
			name: "a report whose last line follows what a test wrote without a newline",
			events: start + `{"Action":"output","Package":"p","Test":"A","Output":"WARNING: DATA RACE\n"}
{"Action":"output","Package":"p","Test":"A","Output":"some text==================\n"}
{"Action":"output","Package":"p","Test":"A","Output":"    x.go:1: NOT RUN: no Kafka\n"}
{"Action":"skip","Package":"p","Test":"A"}`,
			skipped: 1, notRun: map[string]int{"no Kafka": 1},
		},
		{name: "a line that is no event", events: "go: downloading x", says: "go: downloading x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			r := newReport(&out)
			if err := r.read(strings.NewReader(c.events)); err != nil {
				t.Fatal(err)
			}
			r.abandon()
			if r.passed != c.passed || r.failed != c.failed || r.skipped != c.skipped {
				t.Errorf("%d passed, %d failed, %d skipped; want %d, %d, %d", r.passed, r.failed, r.skipped, c.passed, c.failed, c.skipped)
			}
			if !maps.Equal(r.notRun, c.notRun) {
				t.Errorf("not run: %v, want %v", r.notRun, c.notRun)
			}
			if !strings.Contains(out.String(), c.says) {
				t.Errorf("it says %q, without %q", out.String(), c.says)
			}
		})
	}
}

func TestABudgetThatIsExceededIsAWarningThatNamesTheSlowestPackages(t *testing.T) {
	const events = `{"Action":"run","Package":"p","Test":"A"}
{"Action":"pass","Package":"p","Test":"A","Elapsed":2}
{"Action":"pass","Package":"p","Elapsed":3}
{"Action":"pass","Package":"q","Elapsed":1300}
`
	for took, want := range map[time.Duration]string{
		20 * time.Minute: "",
		22 * time.Minute: "WARNING: the tests took 22m0s, more than 20m0s; the slowest packages:\nslow  1300.0s  q\nslow     3.0s  p\n",
	} {
		var out bytes.Buffer
		r := newReport(&out)
		if err := r.read(strings.NewReader(events)); err != nil {
			t.Fatal(err)
		}
		err := closing(options{budget: 20 * time.Minute}, &brokers{}, r, took, nil)
		if err != nil || !strings.Contains(out.String(), want) || (want == "") == strings.Contains(out.String(), "WARNING") {
			t.Errorf("after %v: %v\n%s", took, err, &out)
		}
	}
}

func TestAPackageThatIsOverItsTimeFails(t *testing.T) {
	var out bytes.Buffer
	r := newReport(&out)
	hanging := `{"Action":"run","Package":"p","Test":"A"}` + "\n" + `{"Action":"output","Package":"p","Test":"A","Output":"panic: test timed out after 30m0s\n"}` + "\n" + `{"Action":"fail","Package":"p"}`
	if err := r.read(strings.NewReader(hanging)); err != nil {
		t.Fatal(err)
	}
	if err := closing(options{budget: time.Hour}, &brokers{}, r, time.Minute, nil); err == nil || !strings.Contains(out.String(), "timed out") {
		t.Errorf("%v\n%s", err, &out)
	}
}

func TestTheSlowestTestsAreThoseThatWorkNotThoseThatWaitForTheirSubtests(t *testing.T) {
	const events = `{"Action":"pass","Package":"p","Test":"A/x/y","Elapsed":7}
{"Action":"pass","Package":"p","Test":"A/x","Elapsed":8}
{"Action":"pass","Package":"p","Test":"A","Elapsed":9}
{"Action":"pass","Package":"p","Test":"B","Elapsed":2}
{"Action":"pass","Package":"p","Test":"C","Elapsed":0.5}
`
	var out bytes.Buffer
	r := newReport(&out)
	if err := r.read(strings.NewReader(events)); err != nil {
		t.Fatal(err)
	}
	if r.slowest(5); out.String() != "slow     7.0s  p A/x/y\nslow     2.0s  p B\n" {
		t.Errorf("slow are\n%s", &out)
	}
}

func TestModulesThatNeedWhatTheTestsDoNotInstallAreLeftOut(t *testing.T) {
	const root = "../../.."
	dirs, err := modules(root)
	if err != nil || !slices.Contains(dirs, root) {
		t.Fatalf("%v, %v", dirs, err)
	}
	for _, dir := range dirs {
		if name := filepath.Base(dir); name == "browser" || name == "tools" {
			t.Errorf("%s is tested, too", dir)
		}
	}
}

func TestATestBinaryEndsAsItWouldAloneAndItsProcessorTimeIsSaid(t *testing.T) {
	for script, code := range map[string]int{"exit 0": 0, "exit 3": 3, "kill -9 $$": 1} {
		var out bytes.Buffer
		if got := measure([]string{"/bin/sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; " + script}, &out); got != code {
			t.Errorf("%q ends with %d, want %d", script, got, code)
		}
		if seconds, ok := measured(out.String()); !ok || seconds <= 0 {
			t.Errorf("%q: it says %q", script, &out)
		}
	}
	if got := measure([]string{"/nowhere"}, io.Discard); got == 0 {
		t.Error("what cannot be run has succeeded")
	}
	if _, ok := measured("CPU seconds of this package: many\n"); ok {
		t.Error("that is no number")
	}
}
