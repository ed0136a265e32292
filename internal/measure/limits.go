package main

import (
	"fmt"
	"slices"
	"strings"
)

// limit is what a package may not exceed, or the whole for what is said of the whole.
type limit struct {
	name   string // in notyet.txt
	what   string
	bound  int
	least  bool // bound is the least, not the most
	whole  bool
	number func(p *pkg) (n int, where string)
}

// limits are all that is measured and has a bound. A new one has to be kept at once, or needs a
// line in notyet.txt for each package that does not.
func limits() []limit {
	return []limit{
		{name: "file", what: "lines of the longest file", bound: 350, number: func(p *pkg) (int, string) { return longest(p.code) }},
		{name: "test-file", what: "lines of the longest test file", bound: 500, number: func(p *pkg) (int, string) { return longest(p.tests) }},
		{name: "functions", what: "functions of more than 60 lines", number: func(p *pkg) (int, string) { return p.over60, "" }},
		{name: "exports", what: "exported names without documentation", number: func(p *pkg) (int, string) { return len(p.undocumented), strings.Join(p.undocumented, ", ") }},
		{name: "fields", what: "fields of the biggest struct", bound: 20, number: func(p *pkg) (int, string) { return p.biggest(fieldsOf) }},
		{name: "methods", what: "methods of the biggest type", bound: 25, number: func(p *pkg) (int, string) { return p.biggest(methodsOf) }},
		{name: "wide", what: "comment lines wider than 100 columns, tests included", number: func(p *pkg) (int, string) { return p.wideComments, "" }},
		{name: "comments", what: "comment lines, % of all lines", bound: 15, least: true, whole: true, number: func(p *pkg) (int, string) {
			sum := p.sum()
			return int(percent(sum.comments, sum.lines)), ""
		}},
	}
}

// verdict is what became of all limits.
type verdict struct {
	exceeded []string // where it may not be
	notYet   []string // where it is known
	stale    []string // lines of the list whose limit is kept by now
	list     string   // the list without them
}

// judge compares all packages with all limits. list is the text of notyet.txt.
func judge(all []*pkg, list string) verdict {
	var v verdict
	open := map[string]bool{}
	for _, l := range limits() {
		judged := all
		if l.whole {
			judged = []*pkg{whole(all)}
		}
		for _, p := range judged {
			n, where := l.number(p)
			if l.least && n >= l.bound || !l.least && n <= l.bound {
				continue
			}
			entry := l.name + " " + p.name
			open[entry] = true
			word := "at most"
			if l.least {
				word = "at least"
			}
			line := fmt.Sprintf("%s: %s: %d (%s), %s %d", p.name, l.what, n, where, word, l.bound)
			line = strings.Replace(line, " ()", "", 1)
			if slices.Contains(strings.Split(list, "\n"), entry) {
				v.notYet = append(v.notYet, line)
			} else {
				v.exceeded = append(v.exceeded, line)
			}
		}
	}
	var kept strings.Builder
	for line := range strings.Lines(list) {
		entry := strings.TrimSpace(line)
		if entry != "" && !strings.HasPrefix(entry, "#") && !open[entry] {
			v.stale = append(v.stale, entry)
			continue
		}
		kept.WriteString(line)
	}
	v.list = kept.String()
	return v
}

func longest(files []source) (n int, path string) {
	for _, f := range files {
		if f.lines > n {
			n, path = f.lines, f.path
		}
	}
	return n, path
}

func fieldsOf(s *shape) int {
	if s.data {
		return 0 // no more to understand than one of them
	}
	return s.fields
}

func methodsOf(s *shape) int { return s.methods }

// biggest is the type for which size says the most.
func (p *pkg) biggest(size func(*shape) int) (n int, name string) {
	for t, s := range p.types {
		if m := size(s); m > n || m == n && t < name {
			n, name = m, t
		}
	}
	return n, name
}

// sum is all code as if it were one file.
func (p *pkg) sum() source {
	var s source
	for _, f := range p.code {
		s.lines += f.lines
		s.comments += f.comments
		s.over100 += f.over100
		s.over120 += f.over120
	}
	return s
}

// percent is part of of; 0 where there is nothing.
func percent(part, of int) float64 {
	if of == 0 {
		return 0
	}
	return 100 * float64(part) / float64(of)
}
