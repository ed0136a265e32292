package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// column is a number of each case, the median of all rounds.
type column struct {
	title  string
	format string
	// of is the number of one round; base is the zero result where the case has none to be compared
	// with.
	of func(mine, base result) float64
	// compares says that there is no number without a base.
	compares bool
	// second says that it compares with the second base.
	second bool
	// spread shows the lowest and the highest of all rounds as well.
	spread bool
}

// The columns that most groups have.
func perSecond() column {
	return column{title: "Records/s", format: "%.0f", of: func(mine, _ result) float64 { return mine.perSecond() }}
}

func ofBase() column {
	return column{title: "Of base (lowest … highest)", format: "%.2f", compares: true, spread: true,
		of: func(mine, base result) float64 { return mine.perSecond() / base.perSecond() }}
}

func ofSecond() column {
	c := ofBase()
	c.title, c.second = "Of second base (lowest … highest)", true
	return c
}

func cpuSeconds() column {
	return column{title: "CPU s per million", format: "%.2f", of: func(mine, _ result) float64 { return mine.cpuPerMillion() }}
}

func cpuOfBase() column {
	return column{title: "CPU of base (lowest … highest)", format: "%.2f", compares: true, spread: true,
		of: func(mine, base result) float64 { return mine.cpuPerMillion() / base.cpuPerMillion() }}
}

// brokerCPU is what RabbitMQ used in that time, and what it did for the base.
func brokerCPU() column {
	return column{title: "RabbitMQ's CPU s per million", format: "%.1f", of: func(mine, _ result) float64 { return mine.brokerPerMillion() }}
}

func brokerOfBase() column {
	return column{title: "RabbitMQ's CPU of base (lowest … highest)", format: "%.2f", compares: true, spread: true,
		of: func(mine, base result) float64 { return mine.brokerPerMillion() / base.brokerPerMillion() }}
}

func peakMemory() column {
	return column{title: "Peak RSS MiB", format: "%.0f", of: func(mine, _ result) float64 { return float64(mine.PeakRSS) / (1 << 20) }}
}

func allocs() column {
	return column{title: "Allocations per record", format: "%.2f", of: func(mine, _ result) float64 { return mine.allocsPerRecord() }}
}

// noted is a number that the case itself noted.
func noted(title, name, format string) column {
	return column{title: title, format: format, spread: true, of: func(mine, _ result) float64 {
		if value, ok := mine.Notes[name]; ok {
			return value
		}
		return math.NaN()
	}}
}

// overBase is by how much a noted number is above that of the base.
func overBase(title, name string) column {
	return column{title: title, format: "%+.1f", compares: true, spread: true, of: func(mine, base result) float64 { return mine.Notes[name] - base.Notes[name] }}
}

// usual are the columns of a group that compares speeds.
func usual() []column {
	return []column{perSecond(), ofBase(), cpuSeconds(), cpuOfBase(), allocs(), peakMemory()}
}

// cell is what the report shows.
func (c column) cell(rounds []round, of benchCase) string {
	all := c.values(rounds, of)
	if len(all) == 0 {
		return "–"
	}
	text := fmt.Sprintf(c.format, median(all))
	if c.spread && len(all) > 1 {
		text += fmt.Sprintf(" ("+c.format+" … "+c.format+")", all[0], all[len(all)-1])
	}
	return text
}

// values are the numbers of a case, sorted: one for each round that has it and what it is compared
// with.
func (c column) values(rounds []round, of benchCase) []float64 {
	base := of.base
	if c.second {
		base = of.also
	}
	if c.compares && base == "" {
		return nil
	}
	var all []float64
	for _, results := range rounds {
		mine, measured := results[of.name]
		other, comparable := results[cmp.Or(base, of.name)]
		if value := c.of(mine, other); measured && (comparable || !c.compares) && !math.IsNaN(value) {
			all = append(all, value)
		}
	}
	slices.Sort(all)
	return all
}

// median of sorted values.
func median(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
