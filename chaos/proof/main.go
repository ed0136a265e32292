// Command proof writes the results of chaos runs into the table of docs/PROOF.md:
//
//	CHAOS_RESULTS=/tmp/results make chaos
//	go run ./chaos/proof /tmp/results docs/PROOF.md
//
// and the table that a soak has made, from a file whose name ends in .md:
//
//	SOAK_TABLE=/tmp/soak.md make soak
//	go run ./chaos/proof /tmp/soak.md docs/PROOF.md
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/stepwell/stepwell/chaos/ledger"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: proof RESULTS PAGE")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// The tables stand between lines with these names.
const (
	ofRuns = "results"
	ofSoak = "soak"
)

func write(results, page string) error {
	data, err := os.ReadFile(results)
	if err != nil {
		return fmt.Errorf("read the results: %w", err)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		return fmt.Errorf("read the page: %w", err)
	}
	name, made := ofSoak, string(data)
	if !strings.HasSuffix(results, ".md") {
		name = ofRuns
		if made, err = table(data); err != nil {
			return err
		}
	}
	begin, end := "<!-- "+name+" -->\n", "<!-- end of "+name+" -->\n"
	before, rest, found := strings.Cut(string(text), begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		return fmt.Errorf("%s has no place for the %s", page, name)
	}
	if err := os.WriteFile(page, []byte(before+begin+made+end+after), 0o600); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

// row is all runs of a scenario.
type row struct {
	ledger.Summary
	runs     int
	versions map[string]bool
}

func table(data []byte) (string, error) {
	var order []string
	rows := map[string]*row{}
	sum := &row{Summary: ledger.Summary{Scenario: "**all**"}, versions: map[string]bool{}}
	for line := range bytes.Lines(data) {
		var s ledger.Summary
		if err := json.Unmarshal(line, &s); err != nil {
			return "", fmt.Errorf("a line of the results: %w", err)
		}
		r := rows[s.Scenario]
		if r == nil {
			r = &row{Summary: ledger.Summary{Scenario: s.Scenario}, versions: map[string]bool{}}
			rows[s.Scenario] = r
			order = append(order, s.Scenario)
		}
		r.add(s)
		sum.add(s)
	}
	if len(order) == 0 {
		return "", errors.New("there are no results")
	}
	var b strings.Builder
	b.WriteString("| scenario | RabbitMQ | runs | actors killed | records | lost | removed | tries repeated | copies | wrong | works again after, at most |\n|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, name := range order {
		rows[name].write(&b)
	}
	sum.write(&b)
	return b.String(), nil
}

func (r *row) add(s ledger.Summary) {
	r.runs++
	r.versions[s.RabbitMQ] = true
	r.Records += s.Records
	r.Kills += s.Kills
	r.Lost += s.Lost
	r.Removed += s.Removed
	r.Repeats += s.Repeats
	r.Copies += s.Copies
	r.Wrong += s.Wrong
	r.Recovery = max(r.Recovery, s.Recovery)
}

func (r *row) write(b *strings.Builder) {
	fmt.Fprintf(b, "| %s | %s | %d | %d | %d | %d | %d | %d | %d | %d | %s |\n", r.Scenario, strings.Join(slices.Sorted(maps.Keys(r.versions)), ", "),
		r.runs, r.Kills, r.Records, r.Lost, r.Removed, r.Repeats, r.Copies, r.Wrong, r.Recovery.Round(10*time.Millisecond))
}
