package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

const hotText = `What single steps take, as ordinary benchmarks of Go beside the code: ` + "`go test -bench . -benchmem`" + ` in these packages. All numbers are for one record or call. Medians, each with the lowest and the highest.
*WorkerLoop* is all that the reader does for a record but the client's part, *Dispatch* all that an actor adds to a handler's call, *Memory* what keeps a try from running twice, *Handled* the metrics of a call.`

// hotPackages have benchmarks that need no broker.
func hotPackages() []string {
	return []string{"streams", "internal/crew", "actor", "internal/inbox", "internal/envelope", "internal/telemetry", "internal/seats"}
}

func hotGroup() group {
	return group{name: "hot", title: "Single steps", text: hotText, table: hotPaths}
}

// figures are what one benchmark said, run by run.
type figures struct {
	pkg, name            string
	nanos, bytes, allocs []float64
	records              float64 // that one op is about
}

// hotPaths runs the benchmarks of the library, as often as there are rounds.
func hotPaths(ctx context.Context, rounds int) (string, error) {
	args := []string{"test", "-run", "^$", "-bench", ".", "-benchmem", "-benchtime", "0.3s", "-count", strconv.Itoa(rounds)}
	for _, p := range hotPackages() {
		args = append(args, "./"+p)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = ".."
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go test -bench: %w: %s", err, out)
	}
	all, err := readFigures(out)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("| Package | Benchmark | ns | Bytes | Allocations |\n|---|---|--:|--:|--:|\n")
	for _, f := range all {
		for _, all := range [][]float64{f.nanos, f.bytes, f.allocs} {
			slices.Sort(all)
		}
		if len(f.nanos) == 0 || len(f.bytes) == 0 || len(f.allocs) == 0 {
			return "", fmt.Errorf("benchmark %s of %s did not say all", f.name, f.pkg)
		}
		of := func(value float64) float64 { return value / f.records }
		fmt.Fprintf(&b, "| %s | %s | %.0f (%.0f … %.0f) | %.0f | %.2f |\n", f.pkg, f.name,
			of(median(f.nanos)), of(f.nanos[0]), of(f.nanos[len(f.nanos)-1]), of(median(f.bytes)), of(median(f.allocs)))
	}
	return b.String(), nil
}

// readFigures reads the output of go test -bench -benchmem.
func readFigures(out []byte) ([]figures, error) {
	var all []figures
	pkg := ""
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) == 2 && fields[0] == "pkg:" {
			pkg = strings.TrimPrefix(fields[1], "github.com/stepwell/stepwell/")
		}
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(fields[0], "Benchmark"), "-")
		i := slices.IndexFunc(all, func(f figures) bool { return f.pkg == pkg && f.name == name })
		if i < 0 {
			i = len(all)
			all = append(all, figures{pkg: pkg, name: name, records: 1})
		}
		for n := 2; n+1 < len(fields); n += 2 {
			value, err := strconv.ParseFloat(fields[n], 64)
			if err != nil {
				return nil, fmt.Errorf("read %q: %w", line, err)
			}
			switch fields[n+1] {
			case "records/op", "calls/op":
				all[i].records = value
			case "ns/op":
				all[i].nanos = append(all[i].nanos, value)
			case "B/op":
				all[i].bytes = append(all[i].bytes, value)
			case "allocs/op":
				all[i].allocs = append(all[i].allocs, value)
			}
		}
	}
	if len(all) == 0 {
		return nil, errors.New("go test ran no benchmark")
	}
	return all, nil
}
