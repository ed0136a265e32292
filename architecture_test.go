package stepwell_test

import (
	"go/ast"
	"go/parser"
	"go/token"
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
// and that each file of a row has one of its hops.
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
		hops := 0
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
				hops++
			}
			folder := ""
			for _, f := range quoted.FindAllStringSubmatch(cells[3], -1) {
				if path.Dir(f[1]) != "." {
					folder = path.Dir(f[1]) // for those behind it, too
				}
				file, has := path.Join(folder, path.Base(f[1])), false
				for _, name := range functionsOf(t, file) {
					if _, is := named[name]; is {
						named[name], has = true, true
					}
				}
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
		if hops < 50 {
			t.Errorf("%s: %d hops: the table is read wrongly", title, hops)
		}
	}
	if walks != 3 {
		t.Errorf("%d ways are walked, want 3", walks)
	}
}

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
		of := f.Recv.List[0].Type
		if pointer, is := of.(*ast.StarExpr); is {
			of = pointer.X
		}
		if name, is := of.(*ast.Ident); is {
			names = append(names, name.Name+"."+f.Name.Name)
		}
	}
	return names
}
