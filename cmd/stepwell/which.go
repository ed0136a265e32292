package main

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
)

// which says which messages a command is about; it is part of every command on dead sets.
type which struct {
	Stream  string  `help:"The stream-id." required:"" short:"s"`
	Channel *string `help:"One of the stream's channels; default: the stream itself." short:"c"`
	Count   int     `help:"How many, the oldest first." required:"" short:"n"`
}

// Validate is called by kong before Run: a count below one never reaches an actor.
func (w which) Validate() error {
	switch {
	case w.Stream == "" && w.Count < 1:
		return fmt.Errorf("%w; %w", errNoStream, errCount)
	case w.Stream == "":
		return errNoStream
	case w.Count < 1:
		return errCount
	case w.Channel != nil && *w.Channel == "":
		return empty("channel")
	}
	return nil
}

var errCount = errors.New("--count must be 1 or more")

// query is how the actor's API is told which messages.
func (w which) query() url.Values {
	q := url.Values{"stream": {w.Stream}, "count": {strconv.Itoa(w.Count)}}
	if w.Channel != nil {
		q.Set("channel", *w.Channel)
	}
	return q
}

// result is what a replay or delete answers.
type result struct {
	Message string `json:"message"`
	// Left is nil where the actor does not know how many there are.
	Left *int `json:"left"`
}

func (a *actor) printResult(r result) error {
	left := "how many are left is not known"
	if r.Left != nil {
		left = fmt.Sprintf("%d left", *r.Left)
	}
	_, err := fmt.Fprintf(a.out, "%s; %s\n", a.addressed(plain(r.Message)), left)
	return err
}
