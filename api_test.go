package stepwell_test

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

//go:generate go test -run TestTheExportedNamesAreThoseOf -update .

var update = flag.Bool("update", false, "write docs/api.txt")

// parts can be imported and are not meant to be: actor puts them together.
var parts = []string{"streams", "retry", "deadset", "server", "server/contract", "webhook/contract", "embedded/memory"}

// A program of a user is written against these names: a change of one is a
// decision, and docs/api.txt is where a review sees it.
func TestTheExportedNamesAreThoseOfTheAPIPage(t *testing.T) {
	var now strings.Builder
	for _, p := range packages(t) {
		if matchesAny(append(onlyInTests, parts...), p.name) || matchesAny([]string{"internal/*", "cmd/*", "examples/*"}, p.name) {
			continue
		}
		fmt.Fprintf(&now, "package %s\n\n%s\n", strings.TrimSuffix(module+"/"+p.name, "//"), exported(t, "."+strings.TrimSuffix("/"+p.name, "//")))
	}
	const page = "docs/api.txt"
	if *update {
		if err := os.WriteFile(page, []byte(now.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	before, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range difference(string(before), now.String()) {
		t.Error(line)
	}
	if string(before) != now.String() {
		t.Errorf("what users import has changed. If that is meant, `go generate .` writes %s anew, and CHANGELOG.md tells users", page)
	}
}

// exported are the exported declarations of the package in dir, sorted, each as Go writes it.
func exported(t *testing.T, dir string) string {
	t.Helper()
	p, err := build.ImportDir(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.FileExports(file)
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Field:
				n.Tag = nil // docs/CONFIGURATION.md has what the tags of settings say
			case *ast.StructType:
				n.Incomplete = false // a struct's own fields are its own affair
			}
			return true
		})
		for _, d := range file.Decls {
			all = append(all, declared(t, d)...)
		}
	}
	slices.Sort(all)
	return strings.Join(all, "")
}

// columns is what aligns them; without, a longer name would change the lines around it, too.
var columns = regexp.MustCompile(`(\S)\t+`)

// declared are the declarations in d: one for each type, while constants that are declared together
// stay so, for the order may be their value.
func declared(t *testing.T, d ast.Decl) []string {
	t.Helper()
	var nodes []ast.Node
	switch d := d.(type) {
	case *ast.FuncDecl:
		d.Body = nil
		if d.Recv == nil || ast.IsExported(receiver(d.Recv.List[0].Type)) {
			nodes = append(nodes, d)
		}
	case *ast.GenDecl:
		switch d.Tok {
		case token.IMPORT:
		case token.TYPE:
			for _, s := range d.Specs {
				nodes = append(nodes, &ast.GenDecl{Tok: d.Tok, Specs: []ast.Spec{s}})
			}
		default:
			nodes = append(nodes, d)
		}
	}
	var texts []string
	for _, n := range nodes {
		var text bytes.Buffer
		if err := printer.Fprint(&text, token.NewFileSet(), n); err != nil {
			t.Fatal(err)
		}
		texts = append(texts, columns.ReplaceAllString(text.String(), "$1 ")+"\n")
	}
	return texts
}

// receiver is the name of the type that a method belongs to.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// difference has the lines that only one of two pages has.
func difference(before, now string) []string {
	var lines []string
	had, has := strings.Split(before, "\n"), strings.Split(now, "\n")
	for _, line := range had {
		if !slices.Contains(has, line) {
			lines = append(lines, "- "+line)
		}
	}
	for _, line := range has {
		if !slices.Contains(had, line) {
			lines = append(lines, "+ "+line)
		}
	}
	return lines
}
