package stepwell_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestTheCodeInTheREADMEIsThatOfTheExamples(t *testing.T) {
	var examples strings.Builder
	files, err := filepath.Glob("examples/*/main.go")
	if err != nil || len(files) < 3 {
		t.Fatalf("examples: %v, %v", files, err)
	}
	for _, f := range files {
		source, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		examples.Write(source)
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(readme), "```go\n")[1:]
	if len(blocks) < 2 {
		t.Fatalf("%d pieces of Go in the README", len(blocks))
	}
	for i, block := range blocks {
		code, _, closed := strings.Cut(block, "```")
		if !closed || !strings.Contains(examples.String(), code) {
			t.Errorf("piece %d of Go in the README is in no example:\n%s", i+1, code)
		}
	}
}

func TestLinksBetweenPagesLeadSomewhere(t *testing.T) {
	var pages []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/adr/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	link := regexp.MustCompile(`\]\(([^)#]*)(?:#([^)]*))?\)`)
	for _, page := range pages {
		for _, match := range link.FindAllStringSubmatch(read(t, page), -1) {
			to, part := match[1], match[2]
			if strings.Contains(to, "://") {
				continue
			}
			target := page
			if to != "" {
				target = filepath.Join(filepath.Dir(page), to)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s: %v", page, to, err)
			} else if part != "" && !anchors(read(t, target))[part] {
				t.Errorf("%s links to %s, where no heading is called #%s", page, target, part)
			}
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// anchors are the headings of a page as links name them.
func anchors(page string) map[string]bool {
	all := map[string]bool{}
	dropped := regexp.MustCompile(`[^a-z0-9 _-]`)
	for line := range strings.Lines(page) {
		if heading := strings.TrimLeft(line, "#"); heading != line {
			name := dropped.ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), "")
			all[strings.ReplaceAll(name, " ", "-")] = true
		}
	}
	return all
}
