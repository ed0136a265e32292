package stepwell_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// suites are folders of tests that other packages run as subtests.
var suites = []string{"internal/queue/queuetest"}

func TestEveryTestNamedInTheGuaranteesExists(t *testing.T) {
	page, err := os.ReadFile("docs/GUARANTEES.md")
	if err != nil {
		t.Fatal(err)
	}
	reference := regexp.MustCompile("`([a-z][a-z/]*)\\.((?:Test|Fuzz|Example)\\w+)(?:/(\\w+))?`")
	all := reference.FindAllStringSubmatch(string(page), -1)
	if len(all) < 80 {
		t.Fatalf("%d tests are named: is the page written in another way?", len(all))
	}
	sources := map[string]string{}
	for _, match := range all {
		pkg, name, sub := match[1], match[2], match[3]
		if pkg == "actor" && name == "TestX" {
			continue // the page explains its own notation
		}
		if sources[pkg] == "" {
			folder := pkg
			if pkg == "stepwell" {
				folder = "."
			}
			sources[pkg] = source(t, folder, "*_test.go")
		}
		if !strings.Contains(sources[pkg], "\nfunc "+name+"(") {
			t.Errorf("package %s has no %s", pkg, name)
		}
		if sub != "" && !strings.Contains(sources[pkg]+suite(t), `"`+sub+`"`) {
			t.Errorf("%s of package %s has no subtest %s", name, pkg, sub)
		}
	}
}

func TestEveryGuaranteeNamesATest(t *testing.T) {
	page, err := os.ReadFile("docs/GUARANTEES.md")
	if err != nil {
		t.Fatal(err)
	}
	guarantees := 0
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		if !strings.HasPrefix(line, "| ") || len(cells) < 4 || cells[0] == "event" {
			continue
		}
		guarantees++
		if !strings.Contains(cells[3], ".Test") && !strings.Contains(cells[3], ".Fuzz") {
			t.Errorf("no test shows what happens at: %s", cells[0])
		}
	}
	if guarantees < 50 {
		t.Fatalf("%d guarantees: is the page written in another way?", guarantees)
	}
}

// source is the text of all files of the folder that match.
func source(t *testing.T, folder, pattern string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, pattern))
	if err != nil || len(files) == 0 {
		t.Errorf("no %s in %s: %v", pattern, folder, err)
	}
	var all strings.Builder
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString("\n")
		all.Write(data)
	}
	return all.String()
}

func suite(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, folder := range suites {
		all.WriteString(source(t, folder, "*.go"))
	}
	return all.String()
}
