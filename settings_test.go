package stepwell_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A text that has a variable's name does not know the prefix of the app: it is to ask for the name
// by the setting's key, which the compiler cannot check.
func TestTextsAskForTheNamesOfVariablesByKeysThatThereAre(t *testing.T) {
	variables := knownVariables(t)
	word, key := regexp.MustCompile(`[A-Z0-9_]+`), regexp.MustCompile(`^(kafka|rabbitmq|retry|server|dead_set|shutdown)(\.[a-z_]+)+$`)
	asked := 0
	nameless := func(where any, text string) {
		for _, w := range word.FindAllString(text, -1) {
			if slices.Contains(variables, w) {
				t.Errorf("%s: a text names %s without the prefix of the app", where, w)
			}
		}
	}
	keyed := func(where any, text string) {
		asked++
		name := strings.ToUpper(strings.ReplaceAll(text, ".", "_"))
		if !slices.ContainsFunc(variables, func(v string) bool { return v == name || strings.HasPrefix(v, name+"_") }) {
			t.Errorf("%s: there is no setting %s", where, text)
		}
	}
	for _, p := range packages(t) {
		if matchesAny(onlyInTests, p.name) || !matchesAny([]string{"actor", "streams", "retry", "deadset", "server", "server/*", "webhook", "internal/*", "embedded", "embedded/*"}, p.name) {
			continue
		}
		eachText(t, p.name, func(where token.Position, text string) {
			nameless(where, text)
			if key.MatchString(text) {
				keyed(where, text)
			}
		})
	}
	pages, err := filepath.Glob("server/console/pages/*.html")
	if err != nil || len(pages) < 5 {
		t.Fatalf("pages of the console: %v, %v", pages, err)
	}
	inPage := regexp.MustCompile(`\bsetting "([^"]*)"`)
	for _, page := range pages {
		text := read(t, page)
		nameless(page, text)
		for _, match := range inPage.FindAllStringSubmatch(text, -1) {
			keyed(page, match[1])
		}
	}
	if asked < 30 {
		t.Errorf("found %d keys only", asked)
	}
}

// A page that names a setting which there is not sends its reader astray.
func TestPagesNameSettingsThatThereAre(t *testing.T) {
	variables := knownVariables(t)
	own := regexp.MustCompile(`^STREAMS_[A-Z0-9]+_(CHANNELS_[A-Z0-9]+_)?`)
	var streams []string // what a stream alone may have
	for _, row := range regexp.MustCompile("(?m)^\\| `STREAMS_<ID>_([A-Z_]+)`").FindAllStringSubmatch(read(t, "docs/CONFIGURATION.md"), -1) {
		streams = append(streams, row[1])
	}
	named := 0
	for _, page := range []string{"README.md", "docs/STREAMS.md", "docs/MIGRATING.md", "docs/FEATURES.md", "docs/OPERATIONS.md", "docs/GUARANTEES.md"} {
		for _, match := range regexp.MustCompile("[`… ](…_)?([A-Z][A-Z0-9]*_[A-Z0-9_]+)\\b").FindAllStringSubmatch(read(t, page), -1) {
			name, is := match[2], func(name string) bool { return slices.Contains(variables, name) }
			if of := own.FindString(name); of != "" {
				name = strings.TrimPrefix(name, of)
				is = func(name string) bool { return slices.Contains(variables, name) || slices.Contains(streams, name) }
			} else if group, _, _ := strings.Cut(name, "_"); !isGroup(variables, group) {
				continue // no setting, and does not look like one
			}
			if named++; !is(name) && !is(strings.TrimSuffix(name, "_FILE")) {
				t.Errorf("%s names %s, which is no setting", page, match[2])
			}
		}
	}
	if named < 150 {
		t.Errorf("found %d names only", named)
	}
}

// Behind a setting's name in brackets stands its default.
func TestDefaultsThatPagesNameAreThose(t *testing.T) {
	defaults := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([A-Z0-9_]+)` \\| `([^`]+)` \\|").FindAllStringSubmatch(read(t, "docs/CONFIGURATION.md"), -1) {
		defaults[row[1]] = row[2]
	}
	plain := strings.NewReplacer(" ", "", "min", "m", "off", "0s", "`", "")
	named := 0
	for _, page := range []string{"README.md", "docs/STREAMS.md", "docs/MIGRATING.md", "docs/OPERATIONS.md"} {
		for _, match := range regexp.MustCompile("`([A-Z0-9_]+)` \\((`?[0-9a-z:]+`?|[0-9]+ [a-z]+)\\)").FindAllStringSubmatch(read(t, page), -1) {
			if is, known := defaults[match[1]]; known {
				if named++; plain.Replace(match[2]) != is {
					t.Errorf("%s says that %s is %s where nobody sets it, and it is %s", page, match[1], match[2], is)
				}
			}
		}
	}
	if named < 15 {
		t.Errorf("found %d defaults only", named)
	}
}

// isGroup says whether settings begin with that word.
func isGroup(variables []string, word string) bool {
	return word != "" && slices.ContainsFunc(variables, func(v string) bool { return strings.HasPrefix(v, word+"_") })
}

// knownVariables are those of docs/CONFIGURATION.md.
func knownVariables(t *testing.T) (all []string) {
	t.Helper()
	page, err := os.ReadFile("docs/CONFIGURATION.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range regexp.MustCompile("(?m)^\\| `([A-Z0-9_]+)`").FindAllSubmatch(page, -1) {
		all = append(all, string(row[1]))
	}
	if len(all) < 50 {
		t.Fatalf("found %d variables only", len(all))
	}
	return all
}

// eachText calls f with each string in the code of a package, but for tags.
func eachText(t *testing.T, pkg string, f func(token.Position, string)) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(pkg, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Field:
				n.Tag = nil
			case *ast.BasicLit:
				if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING {
					f(set.Position(n.Pos()), text)
				}
			}
			return true
		})
	}
}
