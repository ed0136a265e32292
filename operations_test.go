package stepwell_test

import (
	"fmt"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/knadh/koanf/parsers/yaml"
)

// Whoever looks for a line of the log, or has an alarm on it, takes its text from the page.
func TestEachLineOfTheLogThatThePageNamesIsWritten(t *testing.T) {
	_, table, found := strings.Cut(read(t, "docs/OPERATIONS.md"), "\n| message | level | when |\n")
	if !found {
		t.Fatal("docs/OPERATIONS.md has no table of what the logs mean")
	}
	var written []string
	for _, p := range packages(t) {
		if !matchesAny(onlyInTests, p.name) {
			eachText(t, strings.TrimPrefix(p.name, "/"), func(_ token.Position, text string) { written = append(written, text) })
		}
	}
	named, quoted := 0, regexp.MustCompile("`([^`]+)`")
	for line := range strings.Lines(table) {
		cells := strings.Split(line, " | ")
		if !strings.HasPrefix(line, "| ") || len(cells) != 3 {
			continue
		}
		for _, message := range quoted.FindAllStringSubmatch(cells[0], -1) {
			named++
			begin, cut := strings.CutSuffix(message[1], " …")
			if !slices.ContainsFunc(written, func(text string) bool { return text == begin || cut && strings.HasPrefix(text, begin) }) {
				t.Errorf("docs/OPERATIONS.md says what %q means, and no code logs it", message[1])
			}
		}
	}
	if named < 7 {
		t.Errorf("%d lines of the log are named: is the table written in another way?", named)
	}
}

// What is exported and stands in no table is found by nobody who makes alarms.
func TestEachMetricIsInTheTable(t *testing.T) {
	_, section, _ := strings.Cut(read(t, "docs/OPERATIONS.md"), "\n## Metrics\n")
	section, _, _ = strings.Cut(section, "\n## ")
	exported := regexp.MustCompile(`\{&\w+\.\w+, "(stepwell\.[a-z_.]+)", `).FindAllStringSubmatch(source(t, "internal/telemetry", "*.go"), -1)
	for _, metric := range exported {
		name := strings.ReplaceAll(metric[1], ".", "_")
		if !regexp.MustCompile("\\| .*`" + name + "(_total)?[`{].* \\| ").MatchString(section) {
			t.Errorf("docs/OPERATIONS.md does not say what %s is", name)
		}
	}
	if len(exported) < 20 {
		t.Errorf("%d metrics are exported: are they made in another way?", len(exported))
	}
}

// An alarm on a metric that does not exist never rings.
func TestTheRulesOfAlertsNameMetricsOfTheTable(t *testing.T) {
	_, section, _ := strings.Cut(read(t, "docs/OPERATIONS.md"), "\n## Metrics\n")
	section, _, _ = strings.Cut(section, "\n## ")
	file, err := yaml.Parser().Unmarshal([]byte(read(t, "docs/alerts.yaml")))
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, group := range file["groups"].([]any) {
		for _, rule := range group.(map[string]any)["rules"].([]any) {
			expr, _ := rule.(map[string]any)["expr"].(string)
			labels := regexp.MustCompile(`by \([^)]*\)`)
			for _, label := range regexp.MustCompile(`stepwell_[a-z]+`).FindAllString(labels.FindString(expr), -1) {
				if notes := fmt.Sprint(rule.(map[string]any)["annotations"]); !strings.Contains(notes, "$labels."+label) {
					t.Errorf("docs/alerts.yaml tells alarms apart by %s, and does not say which one this is: %s", label, notes)
				}
			}
			for _, metric := range regexp.MustCompile(`stepwell_[a-z_]+`).FindAllString(labels.ReplaceAllString(expr, ""), -1) {
				named++
				if !regexp.MustCompile("`" + metric + "[`{]").MatchString(section) {
					t.Errorf("docs/alerts.yaml has a rule for %s, which the table of metrics does not have", metric)
				}
			}
		}
	}
	if named < 6 {
		t.Errorf("%d metrics are in rules", named)
	}
}
