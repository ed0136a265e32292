package main

import (
	"cmp"
	"fmt"
	"strings"
)

// bar is what a number of a case is to reach: the median of all rounds, as it is and not as it is
// shown.
type bar struct {
	number column
	limit  float64
	most   bool // else the limit is the least
}

func atLeast(limit float64, number column) bar { return bar{number: number, limit: limit} }

func atMost(limit float64, number column) bar { return bar{number: number, limit: limit, most: true} }

// verdict tells the bar and whether the case reaches it.
func (b bar) verdict(rounds []round, c benchCase) string {
	name, _, _ := strings.Cut(b.number.title, " (")
	sign := "≥"
	if b.most {
		sign = "≤"
	}
	want := fmt.Sprintf("%s %s %g: ", name, sign, b.limit)
	all := b.number.values(rounds, c)
	if len(all) == 0 {
		return want + "**not measured**"
	}
	got, format := median(all), "%.3g"
	if got >= 1000 {
		format = "%.0f"
	}
	if got == b.limit || got < b.limit == b.most {
		return want + fmt.Sprintf(format+", met", got)
	}
	return want + fmt.Sprintf(format+", **not met**", got)
}

// verdicts are those of all bars of a case.
func (c benchCase) verdicts(rounds []round) string {
	var all []string
	for _, b := range c.bars {
		all = append(all, b.verdict(rounds, c))
	}
	return cmp.Or(strings.Join(all, "; "), "–")
}
