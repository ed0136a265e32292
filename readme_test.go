package stepwell_test

import (
	"os"
	"path/filepath"
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
