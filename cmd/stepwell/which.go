package main

import (
	"fmt"
	"net/url"
	"strconv"
)

// which says which messages a command is about; it is part of every command on dead sets.
type which struct {
	Stream  string `help:"The stream-id." required:"" short:"s"`
	Channel string `help:"One of the stream's channels; default: the stream itself." short:"c"`
	Count   int    `help:"How many, the oldest first." required:"" short:"n"`
}

// Validate is called by kong before Run: a count below one never reaches an actor.
func (w which) Validate() error {
	if w.Count < 1 {
		return fmt.Errorf("--count must be 1 or more")
	}
	return nil
}

// query is how the actor's API is told which messages.
func (w which) query() url.Values {
	q := url.Values{"stream": {w.Stream}, "count": {strconv.Itoa(w.Count)}}
	if w.Channel != "" {
		q.Set("channel", w.Channel)
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
	_, err := fmt.Fprintf(a.out, "%s; %s\n", printable(r.Message), left)
	return err
}

// who is the dead set for people.
func (w which) who() string {
	if w.Channel == "" {
		return w.Stream
	}
	return w.Stream + " channel " + w.Channel
}
