package main

import (
	"cmp"
	"go/ast"
	"maps"
	"slices"
)

// using keeps the names in a file, from which arrows follow. That is rough, for a name stands for
// all that are called so: what several files declare is left out, and a field or variable may be
// taken for a function of its name.
func (p *pkg) using(path string, f *ast.File) {
	to := map[string]bool{}
	for _, d := range f.Decls {
		ast.Inspect(d, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				to[id.Name] = true
			}
			return true
		})
	}
	p.uses[path] = to
}

// upward is how many pairs of files there are of which one uses the other, and in how many it is
// below it, where the files are put in the order that has few of those: again and again the file
// comes first that uses the most others and is used by the fewest.
func (p *pkg) upward() (up, all int) {
	arrows := p.arrows()
	for rest := slices.Sorted(maps.Keys(arrows)); len(rest) > 0; {
		first := slices.MaxFunc(rest, func(a, b string) int { return cmp.Compare(lead(arrows, rest, a), lead(arrows, rest, b)) })
		rest = slices.DeleteFunc(rest, func(f string) bool { return f == first })
		for _, below := range rest {
			if arrows[below][first] {
				up++
				all++
			}
			if arrows[first][below] {
				all++
			}
		}
	}
	return up, all
}

// arrows are the files that each file uses.
func (p *pkg) arrows() map[string]map[string]bool {
	arrows := map[string]map[string]bool{}
	for from, names := range p.uses {
		arrows[from] = map[string]bool{}
		for name := range names {
			if in := p.declaredIn[name]; len(in) == 1 && in[0] != from {
				arrows[from][in[0]] = true
			}
		}
	}
	return arrows
}

// lead is how many of rest a file uses, less those that use it.
func lead(arrows map[string]map[string]bool, rest []string, file string) int {
	n := 0
	for _, other := range rest {
		if arrows[file][other] {
			n++
		}
		if arrows[other][file] {
			n--
		}
	}
	return n
}
