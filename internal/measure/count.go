package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// pkg is what was counted of the files of one folder.
type pkg struct {
	name         string
	code         []source // without tests and what is generated
	tests        []source
	over60       int // functions, by the lines from func to the last brace, in code
	over80       int
	funcs        int
	exports      int
	undocumented []string
	program      bool
	types        map[string]*shape
	declaredIn   map[string][]string // file by name of what is declared in code
	uses         map[string]map[string]bool
	wideComments int // of code and tests, those left out that cannot be wrapped
}

// source is one file.
type source struct {
	path             string
	lines            int
	comments         int // lines that have nothing but a comment
	over100, over120 int // of those
}

// shape is a type with its fields, methods and the files they are in.
type shape struct {
	fields, methods int
	data            bool // its fields have tags: it is a page of settings or of JSON, as long as what it shows
	files           map[string]bool
}

// read counts all packages below root.
func read(root string) ([]*pkg, error) {
	byName := map[string]*pkg{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go"):
			return nil
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(filepath.Dir(rel))
		p := byName[name]
		if p == nil {
			p = &pkg{name: name, types: map[string]*shape{}, declaredIn: map[string][]string{}, uses: map[string]map[string]bool{}}
			byName[name] = p
		}
		return p.file(path)
	})
	if err != nil {
		return nil, fmt.Errorf("measure the code: %w", err)
	}
	return slices.SortedFunc(maps.Values(byName), func(a, b *pkg) int { return cmp.Compare(a.name, b.name) }), nil
}

func (p *pkg) file(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, path, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	// Nobody reads or writes those by hand.
	if ast.IsGenerated(f) {
		return nil
	}
	s := lines(path, text)
	p.wideComments += s.over100
	if strings.HasSuffix(path, "_test.go") {
		p.tests = append(p.tests, s)
		return nil
	}
	p.code = append(p.code, s)
	p.program = f.Name.Name == "main"
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			p.function(set, path, d)
		case *ast.GenDecl:
			p.general(path, d)
		}
	}
	p.using(path, f)
	return nil
}

// lines counts those of a text, and of them the comments: lines that have nothing else.
func lines(path string, text []byte) source {
	s := source{path: path, lines: bytes.Count(text, []byte("\n"))}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(strings.ReplaceAll(line, "\t", "    "), "\n")
		words, isComment := strings.CutPrefix(strings.TrimSpace(line), "//")
		if !isComment {
			continue
		}
		s.comments++
		if strings.HasPrefix(words, "go:") || strings.HasPrefix(words, "nolint") || !strings.Contains(strings.TrimSpace(words), " ") {
			continue // cannot be wrapped
		}
		if width := utf8.RuneCountInString(line); width > 120 {
			s.over100++
			s.over120++
		} else if width > 100 {
			s.over100++
		}
	}
	return s
}

// function counts one function, as a method of its type where it has a receiver.
func (p *pkg) function(set *token.FileSet, path string, d *ast.FuncDecl) {
	p.funcs++
	switch length := set.Position(d.End()).Line - set.Position(d.Pos()).Line + 1; {
	case length > 80:
		p.over80++
		p.over60++
	case length > 60:
		p.over60++
	}
	exported := d.Name.IsExported()
	if d.Recv != nil {
		name := receiver(d.Recv.List[0].Type)
		exported = exported && ast.IsExported(name)
		t := p.shape(name)
		t.methods++
		t.files[path] = true
	}
	p.declare(d.Name.Name, path)
	if exported {
		p.export(d.Name, d.Doc.Text() != "") // a directive alone is none
	}
}

func (p *pkg) general(path string, d *ast.GenDecl) {
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			p.declare(spec.Name.Name, path)
			if spec.Name.IsExported() {
				p.export(spec.Name, d.Doc.Text()+spec.Doc.Text()+spec.Comment.Text() != "")
			}
			if s, ok := spec.Type.(*ast.StructType); ok {
				t := p.shape(spec.Name.Name)
				t.fields, t.data = fields(s)
			}
		case *ast.ValueSpec:
			for _, name := range spec.Names {
				p.declare(name.Name, path)
				if name.IsExported() {
					p.export(name, d.Doc.Text()+spec.Doc.Text()+spec.Comment.Text() != "")
				}
			}
		}
	}
}

// export notes a name that others can use, and whether it says what it is for.
func (p *pkg) export(name *ast.Ident, documented bool) {
	if p.program {
		return // nobody imports it
	}
	p.exports++
	if !documented {
		p.undocumented = append(p.undocumented, name.Name)
	}
}

// declare notes in which files of the package a name is declared.
func (p *pkg) declare(name, path string) {
	if name != "_" && name != "init" && !slices.Contains(p.declaredIn[name], path) {
		p.declaredIn[name] = append(p.declaredIn[name], path)
	}
}

// shape is the entry of a type, whose methods may be met before its declaration.
func (p *pkg) shape(name string) *shape {
	if p.types[name] == nil {
		p.types[name] = &shape{files: map[string]bool{}}
	}
	return p.types[name]
}

// fields counts names, an embedded type as one, and says whether any has a tag.
func fields(s *ast.StructType) (count int, data bool) {
	for _, f := range s.Fields.List {
		count += max(1, len(f.Names))
		data = data || f.Tag != nil
	}
	return count, data
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
