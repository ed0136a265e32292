package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestEachKindOfChangeIsMade(t *testing.T) {
	tests := []struct{ code, what, changed string }{
		{"if a { b() }", "negate the condition", "if !(a) { b() }"},
		{"if a { b() }", "leave it out", "if a {  }"},
		{"x := c < d", "swap < for <=", "x := c <= d"},
		{"x := c && d", "swap && for ||", "x := c || d"},
		{"x++", "swap ++ for --", "x--"},
		{"x += 1", "swap += for -=", "x -= 1"},
		{"x = true", "swap true for false", "x = false"},
		{"x = y", "leave it out", ""},
		{"c <- 1", "leave it out", ""},
		{"defer f()", "leave it out", ""},
		{"for { continue }", "swap continue for break", "for { break }"},
		{"return 1, f()", "return no error", "return 1, nil"},
	}
	for _, test := range tests {
		const head, tail = "package p\nfunc f() (int, error) {\n", "\n}\n"
		source := head + test.code + tail
		all, err := mutants("p.go", []byte(source))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(all, func(m *mutant) bool {
			changed := source[:m.from] + m.text + source[m.to:]
			return m.what == test.what && changed == head+test.changed+tail && m.line == 3 && m.old == test.code && m.new == test.changed
		}) {
			t.Errorf("%s: %s is not among %d changes", test.code, test.what, len(all))
		}
	}
}

func TestAnErrorThatAFunctionWithinReturnsIsItsOwn(t *testing.T) {
	const source = "package p\nfunc f() error {\n_ = func() int { return 1 }\nreturn g()\n}\n"
	all, err := mutants("p.go", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	all = slices.DeleteFunc(all, func(m *mutant) bool { return m.what != "return no error" })
	if len(all) != 1 || all[0].line != 4 {
		t.Errorf("%d errors are left out, the first in line %d", len(all), all[0].line)
	}
}

func TestACopyHasTheParametersOfItsFunctionWhateverTheyAre(t *testing.T) {
	const source = `package p

func (*T[K]) a(_ int, x, y string, more ...K) (n int, err error) { n++; return }
func b[K comparable, V any](map[K]V, func(int) (string, error)) { b[K, V](nil, nil) }
func c() { defer func() { _ = recover() }(); b() }
`
	all, err := mutants("p.go", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range all {
		m.number = i + 1
	}
	made, err := withCopies("p.go", []byte(source), 100, all)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"return mutantArgument1.aMutant1(mutantArgument2, x, y, more...); }; n++; return }",
		"func (mutantArgument1 *T[K]) aMutant1(mutantArgument2 int, x string, y string, more ...K) (n int, err error) { n--; return }",
		"bMutant2[K, V](mutantArgument1, mutantArgument2); return; }; b[K, V](nil, nil) }",
		"func bMutant2[K comparable, V any](mutantArgument1 map[K]V, mutantArgument2 func(int) (string, error)) {  }",
		"func c() { defer func() { _ = recover() }(); b() }", // a copy of it would not recover
	} {
		if !strings.Contains(string(made.source), want) {
			t.Errorf("%q is not in\n%s", want, made.source)
		}
	}
}

func TestWhatNoTestSeesSurvivesAndTheRestDoesNot(t *testing.T) {
	dir := t.TempDir()
	o := options{pkg: ".", tests: []string{"."}, jobs: 1, store: t.TempDir()}
	for name, text := range map[string]string{
		"go.mod": "module m\n\ngo 1.26\n",
		"m.go": `package m

func Max(a, b int) int {
	if a > b {
		return a
	}
	return b
}

func Unseen(a int) int {
	a++
	return a
}

func Last(of []string) string { return of[0] + "-" }

var One = 2 - 1
`,
		"m_test.go": `package m

import "testing"

func TestMax(t *testing.T) {
	if Max(1, 2) != 2 || Max(2, 1) != 2 {
		t.Error()
	}
}

func TestThatAlwaysFailsNoticesNothing(t *testing.T) { t.Error(Unseen(1), Max(1, 1)) }
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	files, all, err := find(o)
	if err != nil {
		t.Fatal(err)
	}
	work := t.TempDir()
	programs, err := build(t.Context(), work, o, files, all)
	if err != nil {
		t.Fatal(err)
	}
	tests, err := measure(t.Context(), work, o, programs)
	if err != nil {
		t.Fatal(err)
	}
	came := map[string]string{}
	for _, m := range all {
		if came[m.what], _, err = o.try(t.Context(), m, files[m.file], tests); err != nil {
			t.Fatal(err)
		}
	}
	for what, want := range map[string]string{
		"negate the condition": killed,
		"swap > for >=":        survived, // the same for a maximum
		"swap ++ for --":       survived,
		"swap + for -":         unbuilt, // of texts
		"swap - for +":         apart,
	} {
		if came[what] != want {
			t.Errorf("%s: %s, want %s", what, came[what], want)
		}
	}
}
