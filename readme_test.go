package stepwell_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestTheCodeInPagesIsThatOfTheExamples(t *testing.T) {
	var examples strings.Builder
	files, err := filepath.Glob("examples/*/main.go")
	if err != nil || len(files) < 3 {
		t.Fatalf("examples: %v, %v", files, err)
	}
	for _, f := range files {
		examples.WriteString(read(t, f))
	}
	for page, least := range map[string]int{"README.md": 2, "docs/STREAMS.md": 5, "docs/MIGRATING.md": 7} {
		blocks := fenced(read(t, page), "go")
		if len(blocks) < least {
			t.Fatalf("%d pieces of Go in %s", len(blocks), page)
		}
		for i, code := range blocks {
			if !strings.Contains(examples.String(), code) {
				t.Errorf("piece %d of Go in %s is in no example:\n%s", i+1, page, code)
			}
		}
	}
}

// fenced are the blocks of a page in that language. Go of another tool is fenced as golang: it is
// in no example.
func fenced(page, language string) (blocks []string) {
	for _, match := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(page, -1) {
		blocks = append(blocks, match[1])
	}
	return blocks
}

// What the table of features says of us leads to where it is promised, or says that it is missing.
func TestEachFeatureOfOursLeadsToItsPromise(t *testing.T) {
	features := 0
	for line := range strings.Lines(read(t, "docs/FEATURES.md")) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		if !strings.HasPrefix(line, "| ") || len(cells) < 4 || slices.Contains([]string{"", "language", "stepwell"}, cells[0]) || strings.HasPrefix(cells[0], "**") {
			continue
		}
		features++
		if ours := cells[1]; !strings.Contains(ours, "](") && !strings.Contains(ours, "**no**") && !strings.Contains(ours, "**new**") {
			t.Errorf("%s: nothing shows %q", cells[0], ours)
		}
	}
	if features < 40 {
		t.Errorf("found %d features only", features)
	}
}

// A program is what its main and its settings are: theirs is a main, with a file of configuration
// where it has one, ours a main and variables.
func TestTheProgramOfAnotherToolIsNoShorterThanOurs(t *testing.T) {
	for _, of := range []struct {
		heading, language string
		pieces            int // of theirs
	}{
		{"A program of theirs, and ours", "clojure", 2},
		{"Its main, and ours", "golang", 1},
	} {
		_, rest, found := strings.Cut(read(t, "docs/MIGRATING.md"), "\n### "+of.heading+"\n")
		section, _, _ := strings.Cut(rest, "\n### ")
		theirs, ours := fenced(section, of.language), append(fenced(section, "go"), fenced(section, "sh")...)
		if !found || len(theirs) != of.pieces || len(ours) != 2 {
			t.Fatalf("%s: %d pieces of theirs, %d of ours", of.heading, len(theirs), len(ours))
		}
		if ours, theirs := lines(ours), lines(theirs); ours >= theirs {
			t.Errorf("%s: ours has %d lines, theirs %d", of.heading, ours, theirs)
		}
	}
}

// lines counts those that are not blank.
func lines(blocks []string) (n int) {
	for _, block := range blocks {
		for line := range strings.Lines(block) {
			if strings.TrimSpace(line) != "" {
				n++
			}
		}
	}
	return n
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
