package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
)

// skip drops the cases that make no sense yet, and says which and why.
func (g *group) skip() []string {
	var lines []string
	g.cases = slices.DeleteFunc(slices.Clone(g.cases), func(c benchCase) bool {
		name, _, _ := strings.Cut(c.setting, "=")
		if name == "" || knows(c.setting) {
			return false
		}
		lines = append(lines, fmt.Sprintf("case %s: the configuration does not know %s yet", c.name, name))
		return true
	})
	return lines
}

// knows says whether the actor's configuration has that setting: of one that it does not know it
// warns.
func knows(setting string) bool {
	name, _, _ := strings.Cut(setting, "=")
	app := actor.App{Name: "bench", Streams: actor.Streams{stream: {Handler: func(context.Context, *stepwell.Message) error { return nil }}}}
	cfg, err := actor.Load(app, []string{"KAFKA_BROKERS=localhost:1", "STREAMS_RECORDS_TOPICS=t", "RETRY_ENABLED=false", "STREAMS_RECORDS_" + setting})
	if err != nil {
		return false
	}
	return !slices.ContainsFunc(cfg.Warnings(), func(w string) bool { return strings.Contains(w, name) })
}
