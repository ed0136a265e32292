package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// list is stepwell streams.
type list struct{}

// streamState is what it shows of a stream.
type streamState struct {
	ID         string         `json:"id"`
	Paused     bool           `json:"paused"`
	Joined     bool           `json:"joined"`
	Stuck      bool           `json:"stuck"`
	Partitions int            `json:"partitions"`
	Lag        int64          `json:"lag"`
	InFlight   int            `json:"in_flight"`
	Queues     map[string]int `json:"queues"`
	Error      string         `json:"error"`
}

// Run does it.
func (*list) Run(ctx context.Context, a *actor) error {
	var answer struct {
		Streams []streamState `json:"streams"`
	}
	if printed, err := a.do(ctx, "GET", "/v1/streams", nil, &answer); printed || err != nil {
		return err
	}
	rows := make([][]string, 0, len(answer.Streams))
	for _, s := range answer.Streams {
		rows = append(rows, []string{
			s.ID, s.word(), strconv.Itoa(s.Partitions), strconv.FormatInt(s.Lag, 10), strconv.Itoa(s.InFlight), s.queues(), s.Error,
		})
	}
	return a.table([]string{"STREAM", "STATE", "PARTITIONS", "LAG", "IN FLIGHT", "QUEUES", "ERROR"}, rows)
}

// word is the state that matters most.
func (s streamState) word() string {
	switch {
	case s.Paused:
		return "paused"
	case s.Stuck:
		return "stuck"
	case !s.Joined:
		return "joining"
	}
	return "running"
}

// queues are those with messages.
func (s streamState) queues() string {
	var full []string
	for _, name := range slices.Sorted(maps.Keys(s.Queues)) {
		if n := s.Queues[name]; n > 0 {
			full = append(full, fmt.Sprintf("%s=%d", name, n))
		}
	}
	if full == nil {
		return "-"
	}
	return strings.Join(full, " ")
}
