package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
)

const pageHead = `# Benchmarks

Made by ` + "`make bench`" + `; do not edit. A group that is measured alone replaces its own section, so sections may be of different days and commits.

Compare the ratios. The absolute numbers are those of one machine that had other work to do as well. All numbers are medians of the rounds, each with the
lowest and the highest of all rounds where that is told; a ratio is taken within a round. A bar is what stepwell is to reach; the median is held against
it, not rounded. Where the rest of the time goes, and what was tried: [ADR 14](adr/0014-where-the-time-goes.md).

`

const method = `## Method

- Every case is a process of its own with the defaults of its library where nothing else is said, one member of a new group, from the first offset. All cases of a group run one after the other
  in each round, every second round backwards.
- Brokers are processes of their own on the same machine. kfake serves copies of one uncompressed batch of records without keys; the topics of a real cluster are filled before the first round.
- Measured from the first record to the last. CPU is user and system time of the process in that span, garbage collection included; RSS is the highest of its life.
- A record that comes twice, or out of order where there is one, fails the run.

`

// write puts the section into the page, in the place of the one that is there.
func (s section) write(path string) error {
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the report: %w", err)
	}
	var b bytes.Buffer
	b.WriteString(pageHead)
	for _, g := range allGroups() {
		text := sectionOf(string(old), g.name)
		if g.name == s.group.name {
			text = s.String()
		}
		if text != "" {
			fmt.Fprintf(&b, "%s\n%s%s\n\n", mark(g.name), text, endMark)
		}
	}
	b.WriteString(method)
	b.WriteString("## Machine and versions of the last run\n\n")
	for _, line := range machine() {
		fmt.Fprintf(&b, "- %s\n", line)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

func mark(group string) string { return "<!-- group " + group + " -->" }

const endMark = "<!-- end -->"

// sectionOf finds a group's section in a page; empty: it has none.
func sectionOf(page, group string) string {
	_, rest, found := strings.Cut(page, mark(group)+"\n")
	if !found {
		return ""
	}
	text, _, _ := strings.Cut(rest, endMark)
	return text
}

// machine says what this ran on.
func machine() []string {
	lines := []string{fmt.Sprintf("%s, %d CPUs, %s/%s", processor(), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH), runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return lines
	}
	for _, d := range info.Deps {
		switch d.Path {
		case "github.com/twmb/franz-go", "github.com/twmb/franz-go/pkg/kfake", "github.com/segmentio/kafka-go", "github.com/rabbitmq/amqp091-go",
			"github.com/ThreeDotsLabs/watermill", "github.com/ThreeDotsLabs/watermill-kafka/v3", "github.com/ThreeDotsLabs/watermill-amqp/v3",
			"github.com/IBM/sarama", "go.opentelemetry.io/otel":
			lines = append(lines, d.Path+" "+d.Version)
		}
	}
	return lines
}

func processor() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown processor"
	}
	for line := range strings.Lines(string(info)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown processor"
}
