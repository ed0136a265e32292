package main

import (
	"math"
	"strings"
	"testing"
)

// barred is a section of one case that is half as fast as tuned, twice as fast as bare, and needs
// the CPU time of tuned and a quarter more.
func barred(bars ...bar) section {
	return section{
		group: group{columns: usual(), cases: []benchCase{{name: "mine", base: "tuned", also: "bare", bars: bars}}},
		rounds: []round{{
			"bare":  {Records: 100, Wall: 1e9, CPU: 4e9},
			"tuned": {Records: 400, Wall: 1e9, CPU: 4e9},
			"mine":  {Records: 200, Wall: 1e9, CPU: 2.5e9},
		}},
	}
}

func TestABarIsMetByTheMedianAsItIsAndNotAsItIsShown(t *testing.T) {
	for name, row := range map[string]struct {
		bar  bar
		want string
	}{
		"at least, below":              {atLeast(0.95, ofBase()), "Of base ≥ 0.95: 0.5, **not met**"},
		"at least, below by a hair":    {atLeast(math.Nextafter(0.5, 1), ofBase()), "0.5, **not met**"},
		"at least, just there":         {atLeast(0.5, ofBase()), "Of base ≥ 0.5: 0.5, met"},
		"at least, of the second base": {atLeast(1.2, ofSecond()), "Of second base ≥ 1.2: 2, met"},
		"at most, above":               {atMost(1.15, cpuOfBase()), "CPU of base ≤ 1.15: 1.25, **not met**"},
		"at most, just there":          {atMost(1.25, cpuOfBase()), "CPU of base ≤ 1.25: 1.25, met"},
		"at most, below":               {atMost(1.6, cpuOfBase()), "CPU of base ≤ 1.6: 1.25, met"},
	} {
		if text := barred(row.bar).String(); !strings.Contains(text, row.want) {
			t.Errorf("%s: no %q in\n%s", name, row.want, text)
		}
	}
}

func TestABarWithoutNumbersIsNotMet(t *testing.T) {
	s := barred(atMost(1.6, cpuOfBase()), atMost(10, overBase("Over base's", "none noted it")))
	delete(s.rounds[0], "tuned")
	want := "| CPU of base ≤ 1.6: **not measured**; Over base's ≤ 10: **not measured** |"
	if text := s.String(); !strings.Contains(text, want) || !strings.Contains(text, " Bars |") {
		t.Errorf("no %q in\n%s", want, text)
	}
}

func TestAGroupWithoutBarsHasNoColumnForThem(t *testing.T) {
	if text := barred().String(); strings.Contains(text, "Bars") {
		t.Error(text)
	}
}
