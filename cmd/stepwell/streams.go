package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/term"
)

// list is stepwell streams.
type list struct {
	Watch bool `help:"Show it anew every two seconds, until Ctrl-C." short:"w"`
}

// streamState is what it shows of a stream.
type streamState struct {
	ID         string         `json:"id"`
	Paused     bool           `json:"paused"`
	Pauses     []pauseState   `json:"pauses"`
	Source     string         `json:"source"`
	Joined     bool           `json:"joined"`
	Reads      bool           `json:"reads"`
	Retired    bool           `json:"retired"`
	MayGo      bool           `json:"may_go"`
	Stuck      bool           `json:"stuck"`
	Suspect    string         `json:"suspect"`
	Partitions int            `json:"partitions"`
	Lag        *int64         `json:"lag"`
	InFlight   int            `json:"in_flight"`
	Oldest     *oldest        `json:"oldest"`
	Queues     map[string]int `json:"queues"`
	Channels   []channelState `json:"channels"`
	Error      string         `json:"error"`
}

// channelState is what it shows of a channel.
type channelState struct {
	ID       string         `json:"id"`
	Runs     bool           `json:"runs"`
	Stuck    bool           `json:"stuck"`
	Suspect  string         `json:"suspect"`
	InFlight int            `json:"in_flight"`
	Queues   map[string]int `json:"queues"`
	Error    string         `json:"error"`
}

// oldest is the message that holds the window.
type oldest struct {
	Topic      string  `json:"topic"`
	Partition  int32   `json:"partition"`
	Offset     int64   `json:"offset"`
	AgeSeconds float64 `json:"age_seconds"`
}

// String is its id and for how long it has been the oldest: "orders.v1:3:17 2m10s".
func (o *oldest) String() string {
	if o == nil {
		return "-"
	}
	age := time.Duration(o.AgeSeconds * float64(time.Second)).Round(time.Second)
	return fmt.Sprintf("%s:%d:%d %s", o.Topic, o.Partition, o.Offset, age)
}

// Run shows the streams once, or until ctx ends.
func (c *list) Run(ctx context.Context, a *actor) error {
	if c.Watch {
		return a.watchStreams(ctx, lookEvery, isTerminal(a.out) && !a.json)
	}
	return a.showStreams(ctx)
}

const (
	// lookEvery is how often a watch looks at the streams, lookWithin how long it waits for an
	// actor: one that does not answer must not look like one in which nothing happens.
	lookEvery  = 2 * time.Second
	lookWithin = 10 * time.Second
)

// watchStreams shows the streams again and again until ctx ends, which is no error; on a screen
// each time in the place of what was there. It goes on when a look fails: that the actor is away
// for a while is what somebody may be waiting to see.
func (a *actor) watchStreams(ctx context.Context, every time.Duration, screen bool) error {
	const homeAndClear = "\x1b[H\x1b[2J"
	for {
		var page bytes.Buffer
		look := *a
		look.out = &page
		within, cancel := context.WithTimeout(ctx, lookWithin)
		err := look.showStreams(within)
		cancel()
		if ctx.Err() != nil {
			return nil
		}
		text := page.String()
		if screen && err == nil {
			text = homeAndClear + text
		}
		if _, err := io.WriteString(a.out, text); err != nil {
			return fmt.Errorf("print the streams: %w", err)
		}
		if err != nil {
			fmt.Fprintln(a.errs, "stepwell:", plain(err.Error()))
		}
		select {
		case <-time.After(every):
		case <-ctx.Done():
			return nil
		}
	}
}

// isTerminal says whether what is read comes from a person, or what is written is seen by one, on a
// screen that can be cleared.
func isTerminal(stream any) bool {
	f, is := stream.(*os.File)
	return is && term.IsTerminal(int(f.Fd()))
}

// showStreams prints a row for each stream, and below it one for each of its channels, which pause
// with it.
func (a *actor) showStreams(ctx context.Context) error {
	var answer struct {
		Streams []json.RawMessage `json:"streams"`
		Others  []pauseState      `json:"other_pauses"`
	}
	if err := a.get(ctx, "/v1/streams", nil, &answer); err != nil {
		return err
	}
	rows := make([][]string, 0, len(answer.Streams))
	for _, stream := range answer.Streams {
		if a.json {
			if err := a.line(stream); err != nil {
				return err
			}
			continue
		}
		var s streamState
		if err := read(stream, &s); err != nil {
			return err
		}
		partitions, lag := "-", "-" // nobody here knows of a stream that others read
		if s.Reads {
			partitions = strconv.Itoa(s.Partitions)
		}
		if s.Reads && s.Lag != nil {
			lag = strconv.FormatInt(*s.Lag, 10)
		}
		rows = append(rows, []string{
			s.ID, s.word(), cmp.Or(s.Source, "-"), partitions, lag, strconv.Itoa(s.InFlight), s.Oldest.String(), full(s.Queues), s.Error,
		})
		for _, c := range s.Channels {
			state := streamState{Paused: s.Paused, Pauses: s.Pauses, Reads: true, Stuck: c.Stuck, Suspect: c.Suspect}.word()
			if !c.Runs {
				state = "not run here"
			}
			rows = append(rows, []string{
				s.ID + " " + c.ID, state, "-", "-", "-", strconv.Itoa(c.InFlight), "-", full(c.Queues), c.Error,
			})
		}
	}
	if a.json {
		return nil
	}
	for _, p := range answer.Others {
		rows = append(rows, []string{p.Stream, "not a stream of this process, " + p.String(), "-", "-", "-", "-", "-", "-", ""})
	}
	return a.table([]string{"STREAM", "STATE", "SOURCE", "PARTITIONS", "LAG", "IN FLIGHT", "OLDEST", "QUEUES", "ERROR"}, rows)
}

// word is the state that matters most.
func (s streamState) word() string {
	switch {
	case s.Paused:
		return paused(s.Pauses)
	case s.Stuck:
		return "stuck"
	case s.Suspect != "":
		return "suspect"
	case s.MayGo:
		return "retired, may go"
	case s.Retired:
		return "retired"
	case !s.Reads:
		return "not read here"
	case !s.Joined && s.Source == "kafka":
		return "joining"
	}
	return "running"
}

// full names the queues that have messages, with how many: most of a stream's queues are empty.
func full(queues map[string]int) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(queues)) {
		if n := queues[name]; n > 0 {
			all = append(all, fmt.Sprintf("%s=%d", name, n))
		}
	}
	if all == nil {
		return "-"
	}
	return strings.Join(all, " ")
}
