package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// whole is all code as one package, without benchmarks, chaos and examples: other projects were
// counted in the same way.
func whole(all []*pkg) *pkg {
	sum := &pkg{name: "all"}
	for _, p := range all {
		if top, _, _ := strings.Cut(p.name, "/"); slices.Contains([]string{"bench", "chaos", "examples"}, top) {
			continue
		}
		sum.code = append(sum.code, p.code...)
		sum.over60 += p.over60
		sum.over80 += p.over80
		sum.funcs += p.funcs
		sum.exports += p.exports
		sum.undocumented = append(sum.undocumented, p.undocumented...)
	}
	return sum
}

// table is what CONTRIBUTING.md shows.
func table(all []*pkg) string {
	w := whole(all)
	s := w.sum()
	slices.SortFunc(w.code, func(a, b source) int { return a.lines - b.lines })
	last, path := longest(w.code)
	var b strings.Builder
	row := func(what, now, aim string) { fmt.Fprintf(&b, "| %s | %s | %s |\n", what, now, aim) }
	b.WriteString("| | now | limit |\n|---|---|---|\n")
	row("median, longest file, lines", fmt.Sprintf("%d, %d (`%s`)", w.code[len(w.code)/2].lines, last, path), "–, 350")
	row("functions > 60, > 80 lines", fmt.Sprintf("%d, %d of %d", w.over60, w.over80, w.funcs), "0, 0")
	row("exports documented", fmt.Sprintf("%.0f %%", percent(w.exports-len(w.undocumented), w.exports)), "100 %")
	row("comment lines, of all lines", fmt.Sprintf("%.1f %%", percent(s.comments, s.lines)), "≥ 15 %")
	row("comment lines wider than 100, 120", fmt.Sprintf("%.1f %%, %.1f %%", percent(s.over100, s.comments), percent(s.over120, s.comments)), "0, 0")
	fields, methods := biggest(all, fieldsOf), biggest(all, methodsOf)
	row("struct with the most fields", fields.name(fieldsOf), "20")
	row("type with the most methods", fmt.Sprintf("%s in %d files", methods.name(methodsOf), len(methods.files)), "25")
	name, up, arrows := mostUpward(all)
	row("package with the most arrows between its files that run upward", fmt.Sprintf("%s, %d of %d: %.0f %%", name, up, arrows, percent(up, arrows)), "–")
	return b.String()
}

// named is a type with its name and that of its package.
type named struct {
	*shape
	of, typ string
}

func (n named) name(size func(*shape) int) string {
	return fmt.Sprintf("`%s.%s`, %d", n.of, n.typ, size(n.shape))
}

// biggest is the type for which size says the most, of all packages that are compared.
func biggest(all []*pkg, size func(*shape) int) named {
	top := named{shape: &shape{}}
	for _, p := range all {
		if n, name := p.biggest(size); n > size(top.shape) {
			top = named{p.types[name], p.name, name}
		}
	}
	return top
}

// mostUpward leaves out packages so small that each arrow is many percent.
func mostUpward(all []*pkg) (name string, up, arrows int) {
	const few = 10
	for _, p := range all {
		if u, a := p.upward(); len(p.code) >= few && percent(u, a) >= percent(up, arrows) {
			name, up, arrows = p.name, u, a
		}
	}
	return name, up, arrows
}

const begin, end = "<!-- measured -->\n", "<!-- /measured -->"

// writeTable puts the table, with date and commit, where the page has its marks.
func writeTable(page, table string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return fmt.Errorf("read the page: %w", err)
	}
	before, rest, found := strings.Cut(string(text), begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		return fmt.Errorf("%s has no place for the table, between %q and %q", page, begin, end)
	}
	// The commit before the one that will have the table: its own hash depends on its text.
	commit, err := exec.CommandContext(context.Background(), "git", "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		return fmt.Errorf("ask git for the commit: %w", err)
	}
	when := fmt.Sprintf("\nMeasured on %s, after %s.\n", time.Now().Format(time.DateOnly), strings.TrimSpace(string(commit)))
	if err := os.WriteFile(page, []byte(before+begin+table+when+end+after), 0o600); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}
