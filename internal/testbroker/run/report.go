package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stepwell/stepwell/internal/testbroker"
)

// event is one line of `go test -json`.
type event struct {
	Action, Package, ImportPath, Test, Output string
	Elapsed                                   float64
}

type testID struct{ pkg, name string }

// timed is a test, or a package, which has no name. How much CPU time it used is known of
// packages, and only where measuredLine said it.
type timed struct {
	testID
	seconds, cpu float64
}

func (t timed) String() string {
	if t.cpu == 0 {
		return fmt.Sprintf("%6.1fs  ", t.seconds)
	}
	return fmt.Sprintf("%6.1fs  %6.1fs CPU  ", t.seconds, t.cpu)
}

// report turns the events of a run into lines for people, and counts.
type report struct {
	out io.Writer

	mu sync.Mutex // guards what follows while modules are tested side by side

	passed, failed, skipped int

	notRun  map[string]int    // reason: tests
	slow    []timed           // tests
	packs   []timed           // packages
	outputs map[testID]string // of what still runs; a package's own has no name
	running map[testID]bool   // tests that began and did not end
	racing  map[string]bool   // packages in the middle of a report of the race detector
	counts  map[string]int    // by package: tests that ended
	cpu     map[string]float64
}

func newReport(out io.Writer) *report {
	return &report{out: out, notRun: map[string]int{}, outputs: map[testID]string{}, running: map[testID]bool{}, racing: map[string]bool{}, counts: map[string]int{}, cpu: map[string]float64{}}
}

// read takes all events of a run. Lines that are none are passed on.
func (r *report) read(in io.Reader) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			r.line(line)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read what go test says: %w", err)
		}
	}
}

func (r *report) line(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var e event
	if json.Unmarshal([]byte(line), &e) == nil {
		r.take(e)
	} else {
		r.printf("%s", line)
	}
}

// take counts one event. A test's output is kept until it ends, and shown only if it failed.
func (r *report) take(e event) {
	id := testID{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		r.printf("%s", e.Output)
	case "run":
		r.running[id] = true
	case "output":
		if seconds, ok := measured(e.Output); ok {
			r.cpu[e.Package] = seconds
			return
		}
		if !r.race(e) {
			r.outputs[id] += e.Output
		}
	case "pass", "fail", "skip":
		if e.Test == "" {
			r.endPackage(e)
		} else {
			r.endTest(e)
		}
		delete(r.outputs, id)
	}
}

// race prints what the race detector reports, as it comes, and says whether e is of that. The
// report counts as output of the test that wrote last, which may pass: whichever tests ran fail.
func (r *report) race(e event) bool {
	const rule = "==================\n"
	switch {
	case strings.Contains(e.Output, "WARNING: DATA RACE"):
		r.printf("\n%s, while %s ran, or tests beside it:\n", e.Package, cmp.Or(e.Test, "no test"))
	case !r.racing[e.Package]:
		return false
	}
	r.printf("%s", e.Output)
	r.racing[e.Package] = !strings.HasSuffix(e.Output, rule) // behind what a test wrote without a newline
	return true
}

func (r *report) anyFailed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed > 0
}

func (r *report) endTest(e event) {
	id := testID{e.Package, e.Test}
	delete(r.running, id)
	r.counts[e.Package]++
	switch e.Action {
	case "pass":
		r.passed++
	case "skip":
		r.skipped++
		// A test that wants a broker and has none says so, and why; any other skip is the test's
		// own affair.
		if _, why, ok := strings.Cut(r.outputs[id], testbroker.NotRun); ok {
			why, _, _ = strings.Cut(why, "\n")
			r.notRun[why]++
		}
	case "fail":
		r.failed++
		r.printf("\n%s %s\n%s\n", e.Package, e.Test, r.outputs[id])
	}
	r.slow = append(r.slow, timed{testID: id, seconds: e.Elapsed})
}

func (r *report) endPackage(e event) {
	delete(r.racing, e.Package)
	took := timed{testID: testID{pkg: e.Package}, seconds: e.Elapsed, cpu: r.cpu[e.Package]}
	r.packs = append(r.packs, took)
	if e.Action == "fail" {
		r.endOfBroken(e.Package)
	}
	switch {
	case e.Action == "fail":
		r.printf("FAIL  %s%s\n", took, e.Package)
	case r.counts[e.Package] > 0:
		r.printf("ok    %s%s  %d tests\n", took, e.Package, r.counts[e.Package])
	}
}

// endOfBroken counts what a package left behind that failed: tests that never
// ended, or itself if no test of it failed.
func (r *report) endOfBroken(pkg string) {
	left := 0
	for id := range r.running {
		if id.pkg == pkg {
			r.printf("\n%s %s did not end\n%s\n", pkg, id.name, r.outputs[id])
			delete(r.running, id)
			left++
		}
	}
	if own := r.outputs[testID{pkg: pkg}]; strings.TrimSpace(own) != "FAIL" {
		r.printf("%s", own)
	}
	if left == 0 && r.counts[pkg] == 0 {
		left = 1 // it does not build, or died before its first test
	}
	r.failed += left
}

// abandon counts as failed what still ran when the run was ended.
func (r *report) abandon() {
	for id := range maps.Keys(r.running) {
		r.printf("%s %s did not end\n", id.pkg, id.name)
		r.failed++
	}
	clear(r.running)
}

// missed has a line for each reason why tests did not run.
func (r *report) missed() []string {
	var lines []string
	for _, why := range slices.Sorted(maps.Keys(r.notRun)) {
		lines = append(lines, fmt.Sprintf("%d tests: %s", r.notRun[why], why))
	}
	return lines
}

// missing is how many tests did not run for want of a broker.
func (r *report) missing() int {
	sum := 0
	for n := range maps.Values(r.notRun) {
		sum += n
	}
	return sum
}

// slowest prints the count tests that took the most time. One that has subtests is left out: it
// waits for them.
func (r *report) slowest(count int) {
	parents := map[testID]bool{}
	for _, t := range r.slow {
		if end := strings.LastIndex(t.name, "/"); end >= 0 {
			parents[testID{t.pkg, t.name[:end]}] = true
		}
	}
	top := slices.DeleteFunc(slices.Clone(r.slow), func(t timed) bool { return parents[t.testID] || t.seconds < 1 })
	slices.SortFunc(top, func(a, b timed) int { return cmp.Compare(b.seconds, a.seconds) })
	for _, t := range top[:min(count, len(top))] {
		r.printf("slow  %s%s %s\n", t, t.pkg, t.name)
	}
}

// overBudget warns of tests that took longer than they should, and names the packages that took the
// most time. A busy machine is no failure.
func (r *report) overBudget(took, budget time.Duration) {
	const most = 5
	if took <= budget {
		return
	}
	r.printf("WARNING: the tests took %s, more than %s; the slowest packages:\n", took.Round(time.Second), budget)
	slices.SortFunc(r.packs, func(a, b timed) int { return cmp.Compare(b.seconds, a.seconds) })
	for _, p := range r.packs[:min(most, len(r.packs))] {
		r.printf("slow  %s%s\n", p, p.pkg)
	}
}

func (r *report) printf(format string, args ...any) {
	_, _ = fmt.Fprintf(r.out, format, args...) // a closed terminal does not change what the tests found
}
