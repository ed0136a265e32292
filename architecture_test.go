package stepwell_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestTheMapOfTheFilesIsThatOfTheRepository(t *testing.T) {
	page, err := os.ReadFile("docs/ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	mapped := mappedFiles(t, string(page))
	for _, p := range packages(t) {
		folder := strings.TrimPrefix(p.name, "/")
		if folder == "" {
			folder = "."
		}
		files, err := filepath.Glob(filepath.Join(folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			f = filepath.ToSlash(f)
			if !strings.HasSuffix(f, "_test.go") && !mapped[f] && !asAWhole(mapped, f) {
				t.Errorf("docs/ARCHITECTURE.md does not mention %s: say in its map what the file has", f)
			}
		}
	}
}

func asAWhole(mapped map[string]bool, file string) bool {
	for dir := path.Dir(file); dir != "."; dir = path.Dir(dir) {
		if mapped[dir+"/"] {
			return true
		}
	}
	return false
}

// The first pages of the larger rooms have maps of their own.
func TestTheMapOnAPackagesFirstPageHasEachOfItsFiles(t *testing.T) {
	for file, fewest := range map[string]int{
		"streams/doc.go": 30, "internal/crew/doc.go": 10, "internal/inbox/inbox.go": 10, "retry/doc.go": 12, "deadset/doc.go": 20,
		"internal/operations/doc.go": 15, "actor/doc.go": 35,
	} {
		page, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, all, found := strings.Cut(string(page), "\n// # Map\n")
		all, _, ended := strings.Cut(all, "\n// # ")
		if !found || !ended {
			t.Errorf("%s: no map", file)
			continue
		}
		named := map[string]bool{path.Base(file): true}
		for _, name := range regexp.MustCompile(`[a-z]+\.go`).FindAllString(all, -1) {
			named[name] = true
		}
		if len(named) < fewest {
			t.Errorf("%s: a map of %d files", file, len(named))
		}
		for name := range named {
			if _, err := os.Stat(path.Join(path.Dir(file), name)); err != nil {
				t.Errorf("%s: its map has %s, which is not there", file, name)
			}
		}
		files, err := filepath.Glob(path.Join(path.Dir(file), "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if name := filepath.Base(f); !strings.HasSuffix(name, "_test.go") && !named[name] {
				t.Errorf("%s: its map does not have %s", file, name)
			}
		}
	}
}

// mappedFiles are those that the page's map names, relative to its headings. A folder, with a slash
// at its end, stands for all it has.
func mappedFiles(t *testing.T, page string) map[string]bool {
	t.Helper()
	_, all, found := strings.Cut(page, "\n## Map of the files\n")
	all, _, ended := strings.Cut(all, "\n## ")
	if !found || !ended {
		t.Fatal("no map of the files")
	}
	mapped := map[string]bool{}
	heading := regexp.MustCompile("^### `/?([a-z/]*?)/?`")
	name, whole := regexp.MustCompile("`([a-z*/]+(?:_test)?\\.go)`"), regexp.MustCompile("`([a-z/]+/)`")
	folder := ""
	for line := range strings.Lines(all) {
		if strings.HasPrefix(line, "### ") {
			folder = ""
			if h := heading.FindStringSubmatch(line); h != nil {
				folder = h[1]
			}
			continue
		}
		for _, match := range whole.FindAllStringSubmatch(line, -1) {
			mapped[match[1]] = true
		}
		for _, match := range name.FindAllStringSubmatch(line, -1) {
			files, err := filepath.Glob(filepath.Join(folder, match[1]))
			if err != nil || len(files) == 0 {
				t.Errorf("docs/ARCHITECTURE.md mentions %s, which is not there", path.Join(folder, match[1]))
			}
			for _, f := range files {
				mapped[filepath.ToSlash(f)] = true
			}
		}
	}
	return mapped
}

// The ways of a message are walked by hand; that each hop is where its row says is looked at here,
// that each file of a row has one of its hops, and that the text below counts them right.
func TestEachHopIsInAFileOfItsRow(t *testing.T) {
	page, err := os.ReadFile("docs/ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	quoted, walks := regexp.MustCompile("`([^`]+)`"), 0
	for _, section := range strings.Split(string(page), "\n## ") {
		title, _, _ := strings.Cut(section, "\n")
		if !strings.HasSuffix(title, ", hop by hop") {
			continue
		}
		walks++
		hops, files := map[string]bool{}, map[string]bool{}
		for line := range strings.Lines(section) {
			if !strings.HasPrefix(line, "|") {
				continue
			}
			cells := strings.Split(line, "|")
			if len(cells) != 5 {
				t.Errorf("%s: a row has what it is, functions and files, and not %s", title, line)
				continue
			}
			named := map[string]bool{}
			for _, hop := range quoted.FindAllStringSubmatch(cells[2], -1) {
				named[hop[1]] = false
			}
			folder := ""
			for _, f := range quoted.FindAllStringSubmatch(cells[3], -1) {
				if path.Dir(f[1]) != "." {
					folder = path.Dir(f[1]) // for those behind it, too
				}
				file, has := path.Join(folder, path.Base(f[1])), false
				for _, name := range functionsOf(t, file) {
					if _, is := named[name]; is {
						if !named[name] {
							hops[file+" "+name] = true
						}
						named[name], has = true, true
					}
				}
				files[file] = true
				if !has {
					t.Errorf("%s: %s has none of%s", title, file, cells[2])
				}
			}
			for hop, found := range named {
				if !found {
					t.Errorf("%s: %s is in none of%s", title, hop, cells[3])
				}
			}
		}
		if len(hops) < 30 {
			t.Errorf("%s: %d hops: the table is read wrongly", title, len(hops))
		}
		if counted := fmt.Sprintf("%d hops in %d files", len(hops), len(files)); !strings.Contains(section, counted) {
			t.Errorf("%s: the table has %s, which nothing below it says", title, counted)
		}
	}
	if walks != 5 {
		t.Errorf("%d ways are walked, want 5", walks)
	}
}

// What the page shows of a package is code that its reader looks for: of an interface all, of what
// else there is a part. Behind a function stand methods of what it returns. The package of a block
// is the last that was named before it.
func TestTheSignaturesOfThePageAreThoseOfTheCode(t *testing.T) {
	page := read(t, "docs/ARCHITECTURE.md")
	block, folder := regexp.MustCompile("(?ms)^```go\n(.*?)^```$"), regexp.MustCompile("`(actor|internal/[a-z]+)`")
	interfaces := 0
	for _, at := range block.FindAllStringSubmatchIndex(page, -1) {
		named := folder.FindAllStringSubmatch(page[:at[0]], -1)
		in := named[len(named)-1][1]
		files, err := filepath.Glob(filepath.Join(in, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		code, shown := members{}, members{}
		for _, file := range files {
			if !strings.HasSuffix(file, "_test.go") {
				code.add(t, file, nil)
			}
		}
		whole := shown.add(t, "the block of "+in, "package shown\n"+page[at[2]:at[3]])
		interfaces += len(whole)
		for name, has := range shown {
			there, is := code[name]
			if !is {
				t.Errorf("docs/ARCHITECTURE.md shows %s of %s, which is not there", name, in)
			}
			for member := range has {
				if !there[member] {
					t.Errorf("docs/ARCHITECTURE.md shows %s of %s.%s, which has none", member, in, name)
				}
			}
			for member := range there {
				if whole[name] && !has[member] {
					t.Errorf("docs/ARCHITECTURE.md leaves out %s of %s.%s", member, in, name)
				}
			}
		}
	}
	if interfaces < 8 {
		t.Errorf("%d interfaces are shown: is the page written in another way?", interfaces)
	}
}

// members are the types and functions of a package: of a type its methods, and its fields or what
// it consists of.
type members map[string]map[string]bool

func (m members) note(name string, has ...string) {
	if m[name] == nil {
		m[name] = map[string]bool{}
	}
	for _, member := range has {
		m[name][member] = true
	}
}

// add notes what is declared in a file, or in the source, and returns which of that are interfaces.
func (m members) add(t *testing.T, file string, source any) (interfaces map[string]bool) {
	t.Helper()
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	behind, word := map[int]string{}, regexp.MustCompile(`\b[A-Z]\w*`)
	for _, c := range parsed.Comments {
		behind[set.Position(c.Pos()).Line] = c.Text()
	}
	interfaces = map[string]bool{}
	for _, d := range parsed.Decls {
		if f, is := d.(*ast.FuncDecl); is {
			if f.Recv != nil {
				m.note(typeName(f.Recv.List[0].Type), f.Name.Name)
			} else {
				m.note(f.Name.Name)
			}
			if has := word.FindAllString(behind[set.Position(f.End()).Line], -1); source != nil && has != nil {
				m.note(typeName(f.Type.Results.List[0].Type), has...)
			}
			continue
		}
		for _, s := range d.(*ast.GenDecl).Specs {
			s, is := s.(*ast.TypeSpec)
			if !is {
				continue
			}
			m.note(s.Name.Name)
			var of *ast.FieldList
			switch is := s.Type.(type) {
			case *ast.InterfaceType:
				of, interfaces[s.Name.Name] = is.Methods, true
			case *ast.StructType:
				of = is.Fields
			default:
				continue
			}
			for _, f := range of.List {
				for _, name := range f.Names {
					m.note(s.Name.Name, name.Name)
				}
				if f.Names == nil {
					m.note(s.Name.Name, types.ExprString(f.Type))
				}
			}
		}
	}
	return interfaces
}

func typeName(of ast.Expr) string { return strings.TrimPrefix(types.ExprString(of), "*") }

// functionsOf are the functions of a file, and its methods with and without their type.
func functionsOf(t *testing.T, file string) (names []string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Error(err)
		return nil
	}
	for _, d := range parsed.Decls {
		f, is := d.(*ast.FuncDecl)
		if !is {
			continue
		}
		names = append(names, f.Name.Name)
		if f.Recv == nil {
			continue
		}
		names = append(names, typeName(f.Recv.List[0].Type)+"."+f.Name.Name)
	}
	return names
}
