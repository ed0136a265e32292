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
		all, err := mutants("p.go", []byte(head+test.code+tail))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(all, func(m mutant) bool {
			return m.what == test.what && string(m.source) == head+test.changed+tail && m.line == 3 && m.old == test.code && m.new == test.changed
		}) {
			t.Errorf("%s: %s is not among %d changes", test.code, test.what, len(all))
		}
	}
}

func TestAnErrorThatAFunctionWithinReturnsIsItsOwn(t *testing.T) {
	all, err := mutants("p.go", []byte("package p\nfunc f() error {\n_ = func() int { return 1 }\nreturn g()\n}\n"))
	if err != nil || strings.Contains(string(all[len(all)-1].source), "return nil }") {
		t.Errorf("%v, %s", err, all[len(all)-1].source)
	}
}

func TestWhatNoTestSeesSurvivesAndTheRestDoesNot(t *testing.T) {
	dir, o := t.TempDir(), options{pkg: ".", limit: 1 << 40, store: t.TempDir()}
	for name, text := range map[string]string{
		"go.mod":    "module m\n\ngo 1.26\n",
		"m.go":      "package m\n\nfunc Max(a, b int) int {\n\tif a > b {\n\t\treturn a\n\t}\n\treturn b\n}\n\nfunc Unseen(a int) int {\n\ta++\n\treturn a\n}\n",
		"m_test.go": "package m\n\nimport \"testing\"\n\nfunc TestMax(t *testing.T) {\n\tif Max(1, 2) != 2 || Max(2, 1) != 2 {\n\t\tt.Error()\n\t}\n}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	all, err := find(o)
	if err != nil {
		t.Fatal(err)
	}
	came := map[string]string{}
	for _, m := range all {
		if came[m.what], err = o.try(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	// a > b and a >= b are the same for a maximum.
	for what, want := range map[string]string{"negate the condition": killed, "swap > for >=": survived, "swap ++ for --": survived} {
		if came[what] != want {
			t.Errorf("%s: %s, want %s", what, came[what], want)
		}
	}
}
