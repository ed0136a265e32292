package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMain(m *testing.M) {
	if isChild, err := child(context.Background()); isChild {
		exit(err)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestEveryCaseThatNeedsNoBrokersReadsItsRecords(t *testing.T) {
	cases, err := chosen("", false)
	if err != nil {
		t.Fatal(err)
	}
	var progress bytes.Buffer
	p := plan{records: 50_000, rounds: 2, cases: cases, profiles: t.TempDir()}
	rounds, err := p.measure(t.Context(), &progress)
	if err != nil {
		t.Fatalf("%v\n%s", err, &progress)
	}
	for n, results := range rounds {
		for _, c := range cases {
			r := results[c.name]
			if r.Records != int64(50_000*c.share) || r.Wall <= 0 || r.CPU <= 0 || r.PeakRSS < 1<<20 {
				t.Errorf("round %d, %s: %+v", n+1, c.name, r)
			}
		}
	}
	if profile, err := os.Stat(filepath.Join(p.profiles, "stepwell.2.pprof")); err != nil || profile.Size() == 0 {
		t.Errorf("profile: %v", err)
	}
	page := filepath.Join(t.TempDir(), "BENCHMARKS.md")
	if err := newReport(p, rounds).write(page); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		if !strings.Contains(string(text), "\n| "+c.name+" |") {
			t.Errorf("no row of %s in\n%s", c.name, text)
		}
	}
}

func TestRatiosAreTakenWithinARoundAndTheMiddleOneIsShown(t *testing.T) {
	of := func(bare, mine float64) round {
		return round{baseline: {Records: int64(bare), Wall: 1e9, CPU: 1e9}, "stepwell": {Records: int64(mine), Wall: 1e9, CPU: 2e9}}
	}
	cases, err := chosen("stepwell", false)
	if err != nil {
		t.Fatal(err)
	}
	// The medians of 1000, 100, 2000 and of 500, 90, 1800 would make 0.5.
	r := newReport(plan{cases: cases}, []round{of(1000, 500), of(100, 90), of(2000, 1800)})
	if got := fmt.Sprintf("%.2f %.2f %.2f %.0f", r.rows[1].ratio, r.rows[1].lowest, r.rows[1].highest, r.rows[1].perSecond); got != "0.90 0.50 0.90 500" {
		t.Errorf("got %s", got)
	}
}

func TestARecordThatComesTwiceFailsTheRun(t *testing.T) {
	m := newMeter(countStep)
	for offset := range int64(countStep) {
		m.count(0, offset)
	}
	<-m.done
	if _, err := m.result(); err != nil {
		t.Error(err)
	}
	m.count(0, 7)
	if _, err := m.result(); err == nil {
		t.Error("a record came twice, and nobody said so")
	}
}

func TestAnUnknownCaseIsRefused(t *testing.T) {
	if _, err := chosen("stepwell,nonsense", false); err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("got %v", err)
	}
}
