package operations

import (
	"slices"
	"testing"
	"time"
)

func TestOneOperationBeginsOnEachDeadSetAndWhatWasLeftBehindBeforeAllElse(t *testing.T) {
	at := func(id, stream string, p Phase) Operation {
		return Operation{Request{ID: id, Action: Replay, Target: Target{Stream: stream}}, State{Phase: p}}
	}
	foreign := func(o Operation) Operation { o.Foreign = true; return o }
	for _, c := range []struct {
		what string
		runs []string // streams on which one runs here
		open []Operation
		want []string
		busy bool
	}{
		{"none is there", nil, nil, nil, false},
		{"one rests", nil, []Operation{at("a", "1", Paused)}, nil, false},
		{"two wait for one dead set", nil, []Operation{at("a", "1", Queued), at("b", "1", Queued)}, []string{"a"}, false},
		{"one was left behind, an older one waits", nil, []Operation{at("a", "1", Queued), at("b", "1", Running)}, []string{"b"}, false},
		{"one runs here", []string{"1"}, []Operation{at("a", "1", Running), at("b", "1", Queued), at("c", "2", Queued)}, []string{"c"}, true},
		{"one is about to leave", []string{"1"}, nil, nil, true},
		{
			"more wait than run at a time", nil,
			[]Operation{at("a", "1", Queued), at("b", "2", Queued), at("c", "3", Queued), at("d", "4", Queued), at("e", "5", Queued)},
			[]string{"a", "b", "c", "d"}, false,
		},
		{"three run here", []string{"1", "2", "3"}, []Operation{at("d", "4", Queued), at("e", "5", Queued)}, []string{"d"}, true},
		{"as many run here as may", []string{"1", "2", "3", "4"}, []Operation{at("e", "5", Queued)}, nil, true},
		{"a newer release asked for it", nil, []Operation{foreign(at("a", "1", Queued)), at("b", "1", Queued)}, []string{"b"}, false},
		{"a newer release ran it", nil, []Operation{foreign(at("a", "1", Running)), at("b", "1", Queued)}, []string{"a", "b"}, false},
		{"it ran where there is such a stream", nil, []Operation{at("a", "none", Running), at("b", "none", Queued)}, []string{"a"}, false},
		{"it is an edit, which nobody runs", nil, []Operation{{Request{ID: "a", Action: Edit, Target: Target{Stream: "1"}}, State{Phase: Queued}}}, nil, false},
	} {
		r := New(Config{Sets: map[Target]DeadSet{{Stream: "1"}: nil, {Stream: "2"}: nil, {Stream: "3"}: nil, {Stream: "4"}: nil, {Stream: "5"}: nil}})
		for _, stream := range c.runs {
			r.live[stream] = &live{request: Request{Target: Target{Stream: stream}}}
		}
		begin, busy := r.due(c.open)
		var got []string
		for _, o := range begin {
			got = append(got, o.ID)
		}
		if !slices.Equal(got, c.want) || busy != c.busy {
			t.Errorf("%s: %v begin, not %v; busy %v", c.what, got, c.want, busy)
		}
	}
}

func TestWhatAWishMakesOfAState(t *testing.T) {
	now, before, fast := time.Unix(2000, 0).UTC(), time.Unix(1000, 0).UTC(), Rate{9, time.Second}
	for _, c := range []struct {
		what string
		at   State
		wish Change
		want State
	}{
		{"a pause of what runs", State{Phase: Running}, Change{Phase: Paused}, State{Phase: Running, Wanted: Paused}},
		{"a cancel of what runs", State{Phase: Running}, Change{Phase: Cancelled}, State{Phase: Running, Wanted: Cancelled}},
		{"a cancel beside a pause", State{Phase: Running, Wanted: Paused}, Change{Phase: Cancelled}, State{Phase: Running, Wanted: Cancelled}},
		{"a resume beside a pause", State{Phase: Running, Wanted: Paused}, Change{Phase: Running}, State{Phase: Running}},
		{"a resume of what runs", State{Phase: Running, Why: "it waits"}, Change{Phase: Running}, State{Phase: Running, Why: "it waits"}},
		{"a resume of what rests", State{Phase: Paused, Why: "x"}, Change{Phase: Running}, State{Phase: Queued}},
		{"a resume of what waits", State{Phase: Queued, Why: "x"}, Change{Phase: Running}, State{Phase: Queued, Why: "x"}},
		{"a pause of what waits", State{Phase: Queued}, Change{Phase: Paused}, State{Phase: Paused}},
		{"a pause of what rests", State{Phase: Paused, Why: "x"}, Change{Phase: Paused}, State{Phase: Paused, Why: "x"}},
		{"a cancel of what waits", State{Phase: Queued, Why: "x"}, Change{Phase: Cancelled}, State{Phase: Cancelled, EndedAt: now}},
		{"a cancel of what rests", State{Phase: Paused, Why: "more match"}, Change{Phase: Cancelled}, State{Phase: Cancelled, Why: "more match", EndedAt: now}},
		{"another rate of what runs", State{Phase: Running}, Change{Rate: &fast}, State{Phase: Running, Rate: fast}},
		{"another rate of what rests", State{Phase: Paused, Why: "x"}, Change{Rate: &fast}, State{Phase: Paused, Why: "x", Rate: fast}},
		{"no wish", State{Phase: Running, Wanted: Paused, Rate: fast}, Change{}, State{Phase: Running, Wanted: Paused, Rate: fast}},
	} {
		c.at.UpdatedAt = before
		got := c.at.after(c.wish, now)
		if !same(got, with(c.want, now)) || got.Rate != c.want.Rate {
			t.Errorf("%s: %+v", c.what, got)
		}
	}
}

// with is the state as it was changed at that time.
func with(s State, at time.Time) State {
	s.UpdatedAt = at
	return s
}
