// Command measure is what `make measure` and `make lint` start: it counts what makes code easy or
// hard to read, says which packages keep the limits, and writes the table of CONTRIBUTING.md.
//
// A limit that a package does not keep yet is a line of notyet.txt and is printed each time. What
// is not there must be kept; a line whose limit is kept by now is an error, and -write removes it.
// It never adds one.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	write := flag.Bool("write", false, "write the table of CONTRIBUTING.md, and drop from notyet.txt what is reached")
	flag.Parse()
	if err := run(*write); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(write bool) error {
	all, err := read(".")
	if err != nil {
		return err
	}
	const notYet = "internal/measure/notyet.txt"
	list, err := os.ReadFile(notYet)
	if err != nil {
		return fmt.Errorf("read what is not reached yet: %w", err)
	}
	v := judge(all, string(list))
	for _, line := range v.notYet {
		fmt.Println("not reached yet:", line)
	}
	if write {
		if err := os.WriteFile(notYet, []byte(v.list), 0o600); err != nil {
			return fmt.Errorf("write what is not reached yet: %w", err)
		}
		if err := writeTable("CONTRIBUTING.md", table(all)); err != nil {
			return err
		}
		v.stale = nil
	}
	for _, line := range v.exceeded {
		fmt.Fprintln(os.Stderr, "exceeded:", line)
	}
	for _, line := range v.stale {
		fmt.Fprintf(os.Stderr, "reached, though %s has it (`make measure` takes it out, for good): %s\n", notYet, line)
	}
	if broken := len(v.exceeded) + len(v.stale); broken > 0 {
		return fmt.Errorf("measure: %d limits to look at", broken)
	}
	return nil
}
