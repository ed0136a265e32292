package actor

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/embedded"
	"github.com/stepwell/stepwell/server"
)

func TestAProbeSaysUntilWhenASuspectWaitsOfWhichTheProcessDied(t *testing.T) {
	if said := tried(time.Time{}); said != "" {
		t.Errorf("of one that runs it says %q", said)
	}
	until := time.Date(2026, 11, 30, 3, 4, 5, 0, time.UTC)
	if said := tried(until); !strings.Contains(said, "waits until 2026-11-30T03:04:05Z") {
		t.Errorf("it says %q", said)
	}
}

func TestAProbeSaysOfSuspectsHowManyThereAreWhichRunsAndWhoseTurnItIs(t *testing.T) {
	elsewhere := func() string { return "stream payments, payments.v1:0:3" }
	for want, test := range map[string]struct {
		status server.Status
		turn   func() string
	}{
		"": {server.Status{}, nil},
		", 1 message is suspected of ending the process, now orders.v1:0:7":                                      {server.Status{Suspects: 1, Suspect: "orders.v1:0:7"}, nil},
		", 2 messages are suspected of ending the process and run one at a time, now orders.v1:0:7":              {server.Status{Suspects: 2, Suspect: "orders.v1:0:7"}, nil},
		", 1 message is suspected of ending the process, and it is the turn of stream payments, payments.v1:0:3": {server.Status{Suspects: 1}, elsewhere},
		", 2 messages are suspected of ending the process and run one at a time":                                 {server.Status{Suspects: 2}, func() string { return "" }},
	} {
		if got := suspected(test.status, test.turn); got != want {
			t.Errorf("it says %q, want %q", got, want)
		}
	}
}

// suspicious is a source that has suspects beside all that it is.
type suspicious struct {
	source
	suspects int
	runs     string
}

func (s suspicious) Status() sourceStatus {
	of := s.source.Status()
	of.Suspects, of.Suspect = s.suspects, s.runs
	return of
}

func TestWhatIsSuspectedInAStreamAndWaitsForAnotherStreamsTurnSaysForWhich(t *testing.T) {
	app := App{Name: "shop", Brokers: embedded.New(embedded.Options{}), Streams: Streams{}}
	env := []string{"SERVER_ADDRESS=off"}
	for _, id := range []string{"orders", "payments"} {
		app.Streams[id] = Stream{Handler: func(context.Context, *stepwell.Message) error { return nil }}
		env = append(env, "STREAMS_"+strings.ToUpper(id)+"_TOPICS="+id+".v1")
	}
	cfg, err := Load(app, env)
	if err != nil {
		t.Fatal(err)
	}
	a, err := New(cfg, app)
	if err != nil {
		t.Fatal(err)
	}
	of := map[string]suspicious{"orders": {nil, 1, ""}, "payments": {nil, 2, "payments.v1:0:3"}}
	for _, s := range a.streams {
		suspects := of[s.id]
		suspects.source = s.source
		s.source = suspects
	}
	said := map[string]string{}
	for _, c := range a.health(t.Context()) {
		said[c.Name] = c.Detail
	}
	for name, want := range map[string]string{
		"stream orders":   ", 1 message is suspected of ending the process, and it is the turn of stream payments, payments.v1:0:3",
		"stream payments": ", 2 messages are suspected of ending the process and run one at a time, now payments.v1:0:3",
	} {
		if !strings.HasSuffix(said[name], want) {
			t.Errorf("%s: it says %q", name, said[name])
		}
	}
}
