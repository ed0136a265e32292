package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
)

// All mutants of a package are built into one program: each is a copy of its function with the one
// change, and the function asks the environment which of its copies to be. Building takes most of
// the time of a mutant where its tests are quick, and is done once.

// hook is the file that is added to the package. A negative number of a mutant is none, and writes
// down which functions were entered.
const hook = `package %s

import (
	"os"
	"strconv"
	"sync"
)

var (
	mutantNow, _ = strconv.Atoi(os.Getenv("` + envMutant + `"))
	mutantMet    sync.Map
)

func mutantAt(function int) int {
	if mutantNow < 0 {
		mutantMeet(function)
	}
	return mutantNow
}

func mutantMeet(function int) {
	if _, met := mutantMet.LoadOrStore(function, true); met {
		return
	}
	f, err := os.OpenFile(os.Getenv("` + envReached + `"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return // a test runs its own program elsewhere
	}
	_, _ = f.WriteString(strconv.Itoa(function) + "\n")
	_ = f.Close()
}
`

const (
	envMutant  = "STEPWELL_MUTANT"
	envReached = "STEPWELL_MUTANT_REACHED"
)

// copied is a file that has the copies of its functions at its end.
type copied struct {
	pkg    string
	source []byte
	// owner says of each line at the end which mutant's copy it belongs to.
	owner map[int]*mutant
}

// edit puts a text in the place of another.
type edit struct {
	from, to int
	text     string
}

// withCopies writes the file with the copies of those mutants that build. A mutant without a
// function (a constant, say), or in one that recovers, which a copy could not, has none.
func withCopies(file string, source []byte, base int, all []*mutant) (copied, error) {
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, file, source, parser.SkipObjectResolution)
	if err != nil {
		return copied{}, fmt.Errorf("parse: %w", err)
	}
	at := func(p token.Pos) int { return set.Position(p).Offset }
	var edits []edit // of the functions as they are: the choice of a copy
	var tail strings.Builder
	var owners []*mutant // of each line of the tail
	for _, d := range tree.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || !canBeCopied(f) {
			continue
		}
		head, call := named(f, source, at)
		var choice strings.Builder
		for _, m := range all {
			if m.unbuilt || m.from < at(f.Body.Lbrace) || m.to > at(f.Body.End()) {
				continue
			}
			m.function = base + at(f.Pos())
			name := fmt.Sprintf("%sMutant%d", f.Name.Name, m.number)
			ending := "; return"
			back := ""
			if f.Type.Results != nil {
				back, ending = "return ", ""
			}
			fmt.Fprintf(&choice, "case %d: %s%s%s; ", m.number, back, fmt.Sprintf(call, name), ending)
			body := string(source[at(f.Body.Lbrace):m.from]) + m.text + string(source[m.to:at(f.Body.End())])
			text := fmt.Sprintf(head, name) + " " + body + "\n"
			for range strings.Count(text, "\n") {
				owners = append(owners, m)
			}
			tail.WriteString(text)
		}
		if choice.Len() == 0 {
			continue
		}
		edits = append(edits, edit{at(f.Pos()), at(f.Body.Lbrace), fmt.Sprintf(head, f.Name.Name) + " "},
			edit{at(f.Body.Lbrace) + 1, at(f.Body.Lbrace) + 1, fmt.Sprintf("switch mutantAt(%d) { %s};", base+at(f.Pos()), choice.String())})
	}
	text := slices.Clone(source)
	for _, e := range slices.Backward(edits) {
		text = slices.Concat(text[:e.from], []byte(e.text), text[e.to:])
	}
	first, owner := 2+strings.Count(string(text), "\n"), map[int]*mutant{}
	for i, m := range owners {
		owner[first+i] = m
	}
	return copied{tree.Name.Name, slices.Concat(text, []byte("\n"), []byte(tail.String())), owner}, nil
}

// canBeCopied says whether another function may do what this one does: nobody can call init.
func canBeCopied(f *ast.FuncDecl) bool {
	return f.Body != nil && f.Name.Name != "init" && !recovers(f.Body)
}

// recovers says whether the function may be there to recover, which one that it calls cannot do
// for it.
func recovers(body *ast.BlockStmt) bool {
	found := false
	ast.Inspect(body, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		found = found || ok && id.Name == "recover"
		return !found
	})
	return found
}

// named gives the head of a function, with a name for each parameter, and a call of it with these;
// %s is where the function's name belongs in either.
func named(f *ast.FuncDecl, source []byte, at func(token.Pos) int) (head, call string) {
	text := func(n ast.Node) string { return strings.ReplaceAll(string(source[at(n.Pos()):at(n.End())]), "%", "%%") }
	unnamed := 0
	name := func(of string) string {
		if of != "" && of != "_" {
			return of
		}
		unnamed++
		return fmt.Sprintf("mutantArgument%d", unnamed)
	}
	list := func(fields *ast.FieldList) (declared, passed []string) {
		for _, field := range fields.List {
			names := field.Names
			if names == nil {
				names = []*ast.Ident{{}}
			}
			dots := ""
			if _, variadic := field.Type.(*ast.Ellipsis); variadic {
				dots = "..."
			}
			for _, id := range names {
				n := name(id.Name)
				declared, passed = append(declared, n+" "+text(field.Type)), append(passed, n+dots)
			}
		}
		return declared, passed
	}
	head, call = "func ", "%s"
	if f.Recv != nil {
		declared, passed := list(f.Recv)
		head, call = head+"("+declared[0]+") ", passed[0]+".%s"
	}
	head += "%s"
	if p := f.Type.TypeParams; p != nil {
		declared, passed := list(p)
		head, call = head+"["+strings.Join(declared, ", ")+"]", call+"["+strings.Join(passed, ", ")+"]"
	}
	declared, passed := list(f.Type.Params)
	head, call = head+"("+strings.Join(declared, ", ")+")", call+"("+strings.Join(passed, ", ")+")"
	if r := f.Type.Results; r != nil {
		head += " " + text(r)
	}
	return strings.Join(strings.Fields(head), " "), call
}
