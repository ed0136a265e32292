package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"text/tabwriter"
)

// report is what came of all rounds.
type report struct {
	plan plan
	rows []row
}

// row is one case. All but the extremes are medians of the rounds.
type row struct {
	benchCase
	perSecond, cpu, rss    float64
	ratio, lowest, highest float64 // of the baseline's records/s in the same round
	cpuRatio               float64 // of the baseline's CPU time in the same round
}

func newReport(p plan, rounds []round) report {
	r := report{plan: p}
	for _, c := range p.cases {
		of := func(value func(mine, bare result) float64) []float64 {
			var all []float64
			for _, results := range rounds {
				all = append(all, value(results[c.name], results[baseline]))
			}
			slices.Sort(all)
			return all
		}
		ratios := of(func(mine, bare result) float64 { return mine.perSecond() / bare.perSecond() })
		r.rows = append(r.rows, row{
			benchCase: c,
			perSecond: median(of(func(mine, _ result) float64 { return mine.perSecond() })),
			cpu:       median(of(func(mine, _ result) float64 { return mine.cpuPerMillion() })),
			rss:       median(of(func(mine, _ result) float64 { return float64(mine.PeakRSS) })),
			cpuRatio:  median(of(func(mine, bare result) float64 { return mine.cpuPerMillion() / bare.cpuPerMillion() })),
			ratio:     median(ratios), lowest: ratios[0], highest: ratios[len(ratios)-1],
		})
	}
	return r
}

// median of sorted values.
func median(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

func (r report) table(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "case\trecords/s\tof bare\tlowest\thighest\tCPU s per million\tof bare\tpeak RSS MiB\t")
	for _, c := range r.rows {
		fmt.Fprintf(t, "%s\t%.0f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.0f\t\n", c.name, c.perSecond, c.ratio, c.lowest, c.highest, c.cpu, c.cpuRatio, c.rss/(1<<20))
	}
	_ = t.Flush() // its error is that of w, a terminal
}

// write makes the page for the repository.
func (r report) write(path string) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Benchmarks\n\nMade by `cd bench && go run . %s`; do not edit.\n\n", strings.Join(r.arguments(), " "))
	fmt.Fprint(&b, "Compare the ratios. The absolute numbers are those of one machine that had other work to do as well.\n\n## What a handler call costs\n\n")
	fmt.Fprintf(&b, "Success path: %d partitions, values of %d bytes, a handler that counts. Medians of %d rounds; the ratio is that of records/s to the bare loop's in the same round, with the lowest and the highest of all rounds.\n\n",
		partitions, valueBytes, r.plan.rounds)
	fmt.Fprint(&b, "| Case | What it is | Records/s | Of bare | Lowest … highest | CPU s per million | Of bare | Peak RSS |\n|---|---|--:|--:|--:|--:|--:|--:|\n")
	for _, c := range r.rows {
		fmt.Fprintf(&b, "| %s | %s | %.2f M | %.2f | %.2f … %.2f | %.2f | %.2f | %.0f MiB |\n",
			c.name, c.what, c.perSecond/1e6, c.ratio, c.lowest, c.highest, c.cpu, c.cpuRatio, c.rss/(1<<20))
	}
	fmt.Fprintf(&b, "\n## Method\n\n%s\n## Machine and versions\n\n", r.method())
	for _, line := range machine() {
		fmt.Fprintf(&b, "- %s\n", line)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

func (r report) arguments() []string {
	args := []string{fmt.Sprintf("-write -rounds %d -records %d", r.plan.rounds, r.plan.records)}
	if r.plan.kafka != "" {
		args = append(args, "-kafka host:port")
	}
	if r.plan.rabbitmq != "" {
		args = append(args, "-rabbitmq URL")
	}
	for _, setting := range r.plan.environ {
		args = append(args, "-env "+setting)
	}
	return args
}

func (r report) method() string {
	broker := fmt.Sprintf("kfake in a process of its own (GOGC=200), a new one for each case, which serves copies of one uncompressed batch of %d records", batchRecords)
	if r.plan.kafka != "" {
		broker = "a Kafka node on the same machine, one topic for all cases, batches uncompressed"
	}
	return fmt.Sprintf(`- Broker: %s.
- Each case is a process of its own with the defaults of its library, one member of a new group, from the first offset. All cases run one after the other in each round, every second round backwards.
- Measured from the first record to the last that is counted: %d for the bare loop and the actor, fewer for slow cases, so that each takes seconds. CPU is user and system time of the process in that span, garbage collection included; RSS is the highest of its life.
- A record that comes twice or out of order fails the run.
`, broker, r.plan.records)
}

// machine says what this ran on.
func machine() []string {
	lines := []string{fmt.Sprintf("%s, %d CPUs, %s/%s", processor(), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH), runtime.Version()}
	if commit, err := exec.Command("git", "rev-parse", "--short", "HEAD").Output(); err == nil {
		lines = append(lines, "stepwell at "+strings.TrimSpace(string(commit)))
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return lines
	}
	for _, d := range info.Deps {
		switch d.Path {
		case "github.com/twmb/franz-go", "github.com/twmb/franz-go/pkg/kfake", "github.com/segmentio/kafka-go",
			"github.com/ThreeDotsLabs/watermill-kafka/v3", "github.com/IBM/sarama", "go.opentelemetry.io/otel":
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
