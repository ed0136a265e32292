package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"
)

// section is what the report says of one group.
type section struct {
	group    group
	plan     plan
	rounds   []round
	table    string   // in place of rounds
	versions []string // of the brokers
	skipped  []string
	commit   string
	load     string // of the machine, before the first case; empty: unknown
}

// String is the section in Markdown.
func (s section) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\n%s\n\n", s.group.title, s.group.text)
	if s.table != "" {
		fmt.Fprintf(&b, "%s\n%s; %d runs of each; `go run . -group %s -rounds %d`; stepwell at %s.\n",
			s.table, time.Now().UTC().Format(time.DateOnly), s.plan.rounds, s.group.name, s.plan.rounds, s.commit)
		return b.String()
	}
	for _, line := range s.skipped {
		fmt.Fprintf(&b, "**NOT RUN: %s.**\n\n", line)
	}
	head, rule := "| Case | What it is | Base |", "|---|---|---|"
	for _, c := range s.group.columns {
		head += " " + c.title + " |"
		rule += "--:|"
	}
	barred := slices.ContainsFunc(s.group.cases, func(c benchCase) bool { return len(c.bars) > 0 })
	if barred {
		head += " Bars |"
		rule += "---|"
	}
	fmt.Fprintf(&b, "%s\n%s\n", head, rule)
	for _, c := range s.group.cases {
		fmt.Fprintf(&b, "| %s | %s | %s |", c.name, c.what, cmp.Or(strings.Join(c.bases(), ", "), "–"))
		for _, column := range s.group.columns {
			fmt.Fprintf(&b, " %s |", column.cell(s.rounds, c))
		}
		if barred {
			fmt.Fprintf(&b, " %s |", c.verdicts(s.rounds))
		}
		fmt.Fprintln(&b)
	}
	fmt.Fprintf(&b, "\n%s; medians of %d rounds; `%s`; stepwell at %s.\n", time.Now().UTC().Format(time.DateOnly), len(s.rounds), s.command(), s.commit)
	if len(s.versions) > 0 {
		fmt.Fprintf(&b, "%s.\n", strings.Join(s.versions, "; "))
	}
	if s.load != "" {
		fmt.Fprintf(&b, "Load average before the first case: %s, on %d processors; above 0.5, others used the machine as well.\n", s.load, runtime.NumCPU())
	}
	return b.String()
}

// command is how to measure the group again.
func (s section) command() string {
	args := fmt.Sprintf("go run . -group %s -rounds %d -records %d", s.group.name, s.plan.rounds, s.plan.records)
	for _, setting := range s.plan.environ {
		args += " -env " + setting
	}
	return args
}

// commit is that of the working tree, with a mark where files of the library differ from it.
func commit(ctx context.Context) string {
	head, err := exec.CommandContext(ctx, "git", "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		return "an unknown commit"
	}
	name := strings.TrimSpace(string(head))
	if changed, err := exec.CommandContext(ctx, "git", "status", "--porcelain", "--", "..", ":!.", ":!../docs").Output(); err == nil && len(changed) > 0 {
		name += " with changes"
	}
	return name
}

// loadOfMachine is how many processes wanted a processor in the last minute, on average: numbers of
// a machine that others use are to say so.
func loadOfMachine() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	last, _, _ := strings.Cut(string(text), " ")
	return last
}
