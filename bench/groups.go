package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// group is a question, and the cases that answer it.
type group struct {
	name, title string
	text        string // what is measured, for the report
	columns     []column
	cases       []benchCase
	// table measures in place of cases; nil: the cases do.
	table func(ctx context.Context, rounds int) (string, error)
}

// benchCase is one way to do a work.
type benchCase struct {
	name, what string
	// base is the case of the group whose numbers in the same round these are compared with; empty:
	// none.
	base string
	// also is a second one, for the columns that say so.
	also string
	// bars are what its numbers are to reach; none: they only inform.
	bars []bar
	feed feed
	// share is how many of the plan's records the case reads, so that slow ones take no longer than
	// others.
	share float64
	// rabbitmq says that it needs one.
	rabbitmq bool
	// setting is one without which the case makes no sense: while the configuration does not know
	// it the case is left out.
	setting string
	run     func(context.Context, job, *meter) error
}

// bases are the cases that it is compared with.
func (c benchCase) bases() []string {
	return slices.DeleteFunc([]string{c.base, c.also}, func(name string) bool { return name == "" })
}

// feed is what a topic holds: record i has key i modulo Keys and partition i modulo Partitions.
type feed struct {
	// Synthetic is a kfake that serves copies of one batch for ever, without keys. Else it is a
	// topic of a real cluster.
	Synthetic              bool
	Partitions, ValueBytes int
	Keys                   int
	// SmallEvery: every so many records of a partition one has 100 bytes. 0: none.
	SmallEvery int64
	// Zstd says that batches are compressed, to an eightieth.
	Zstd bool
}

// small says that the record of the offset is.
func (f feed) small(offset int64) bool { return f.SmallEvery > 0 && offset%f.SmallEvery == 0 }

// real is a topic of a real cluster.
func (f feed) real() bool { return !f.Synthetic && f.Partitions > 0 }

func allGroups() []group {
	return []group{
		successGroup(), slowGroup(), failureGroup(), latenessGroup(), jitterGroup(), deadsetGroup(), pagesGroup(), sourceGroup(), retrierGroup(), orderGroup(), batchGroup(), memoryGroup(), neighboursGroup(), growthGroup(), hotGroup(),
	}
}

func groupNames() string {
	var names []string
	for _, g := range allGroups() {
		names = append(names, g.name)
	}
	return strings.Join(names, ", ")
}

// chosen are the named groups with the named cases and those that these are compared with; all
// where nothing is named.
func chosen(groups, cases string) ([]group, error) {
	all := allGroups()
	for name := range split(groups) {
		if !slices.ContainsFunc(all, func(g group) bool { return g.name == name }) {
			return nil, fmt.Errorf("no group is called %q: want %s", name, groupNames())
		}
	}
	if wanted := split(groups); len(wanted) > 0 {
		all = slices.DeleteFunc(all, func(g group) bool { return !wanted[g.name] })
	}
	wanted := split(cases)
	if len(wanted) == 0 {
		return all, nil
	}
	found := map[string]bool{}
	for i := range all {
		found = all[i].keep(wanted, found)
	}
	for name := range wanted {
		if !found[name] {
			return nil, fmt.Errorf("no case is called %q", name)
		}
	}
	return slices.DeleteFunc(all, func(g group) bool { return len(g.cases) == 0 }), nil
}

// keep drops the cases that are not wanted and adds to found those that are.
func (g *group) keep(wanted, found map[string]bool) map[string]bool {
	bases := map[string]bool{}
	for _, c := range g.cases {
		if wanted[c.name] {
			found[c.name] = true
			for _, name := range c.bases() {
				bases[name] = true
			}
		}
	}
	g.cases = slices.DeleteFunc(g.cases, func(c benchCase) bool { return !wanted[c.name] && !bases[c.name] })
	return found
}

func split(names string) map[string]bool {
	all := map[string]bool{}
	for name := range strings.SplitSeq(names, ",") {
		if name != "" {
			all[name] = true
		}
	}
	return all
}

// caseNamed finds the case of a job.
func caseNamed(inGroup, name string) (benchCase, error) {
	for _, g := range allGroups() {
		for _, c := range g.cases {
			if g.name == inGroup && c.name == name {
				return c, nil
			}
		}
	}
	return benchCase{}, fmt.Errorf("group %s has no case %q", inGroup, name)
}
