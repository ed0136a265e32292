package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Somebody copies them at night: one that lacks an argument is found out here.
func TestEachCommandThatAPageNamesWholeIsUnderstood(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	command := regexp.MustCompile("(?m)(?:^|`)stepwell ((?:dead-set|streams|pause|resume)[^`\n]*)")
	argument := regexp.MustCompile(`"[^"]*"|\S+`)
	whole := regexp.MustCompile(`^(streams|pause|resume)| (-s|--stream|OP|op_…) ?`)
	forTheShell := regexp.MustCompile(` +[>#].*`)
	over, cancel := context.WithCancel(t.Context())
	cancel() // what is understood asks no actor, and watches nothing
	understood := 0
	for _, page := range append(pages, "../../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range command.FindAllStringSubmatch(string(text), -1) {
			if !whole.MatchString(match[1]) {
				continue // it names the command, not what to type
			}
			typed := argument.FindAllString(forTheShell.ReplaceAllString(match[1], ""), -1)
			args := slices.Concat([]string{"--address", "127.0.0.1:1"}, typed)
			for i, arg := range args {
				args[i] = strings.Trim(strings.ReplaceAll(arg, "…", "7f3a91c2b04d"), `"`)
			}
			var errs bytes.Buffer
			if code := run(over, args, func(string) error { return errNo }, io.Discard, &errs); code == exitUsage {
				t.Errorf("%s has stepwell %s, of which the command says: %s", page, match[1], &errs)
			}
			understood++
		}
	}
	if understood < 30 {
		t.Errorf("%d commands were found: do pages show them in another way?", understood)
	}
}
