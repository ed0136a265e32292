package config_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stepwell/stepwell/config"
)

// withChannel is a source whose stream orders has a channel slow.
func withChannel(stream config.Stream, channel config.Channel, environ ...string) config.Source {
	s := source(environ...)
	stream.Topics = []string{"orders.v1"}
	stream.Channels = map[string]config.Channel{"slow": channel}
	s.Streams = map[string]config.Stream{"orders": stream}
	return s
}

func TestAChannelHasItsOwnSettingsElseThoseOfItsStream(t *testing.T) {
	const of = "STREAMS_ORDERS_CHANNELS_SLOW_"
	file := filepath.Join(t.TempDir(), "settings.yaml")
	if err := os.WriteFile(file, []byte("streams:\n  orders:\n    channels:\n      slow:\n        retry:\n          count: 9\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name    string
		stream  config.Stream
		channel config.Channel
		file    string
		environ []string
		count   int
		delay   time.Duration
	}{
		{name: "the default", count: 3, delay: 5 * time.Second},
		{name: "its stream's code", stream: config.Stream{Retry: config.Retry{Count: new(4)}}, count: 4, delay: 5 * time.Second},
		{name: "its own code before its stream's", stream: config.Stream{Retry: config.Retry{Count: new(4), Delay: time.Minute}},
			channel: config.Channel{Retry: config.Retry{Count: new(0)}}, count: 0, delay: time.Minute},
		{name: "what all share before code", channel: config.Channel{Retry: config.Retry{Count: new(0)}}, environ: []string{"RETRY_COUNT=6"}, count: 6, delay: 5 * time.Second},
		{name: "its stream's before what all share", environ: []string{"RETRY_COUNT=6", "STREAMS_ORDERS_RETRY_COUNT=7"}, count: 7, delay: 5 * time.Second},
		{name: "its own before its stream's", environ: []string{"STREAMS_ORDERS_RETRY_COUNT=7", of + "RETRY_COUNT=8", of + "RETRY_DELAY=2s"}, count: 8, delay: 2 * time.Second},
		{name: "its own in the file before its stream's in the environment", file: file, environ: []string{"STREAMS_ORDERS_RETRY_COUNT=7"}, count: 9, delay: 5 * time.Second},
		{name: "its own in the environment before that", file: file, environ: []string{of + "RETRY_COUNT=10"}, count: 10, delay: 5 * time.Second},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := withChannel(test.stream, test.channel, test.environ...)
			s.File = test.file
			got := load(t, s).Stream("orders").Of("slow")
			if *got.Retry.Count != test.count || got.Retry.Delay != test.delay || got.Channels != nil {
				t.Errorf("count %d, delay %s; want %d and %s", *got.Retry.Count, got.Retry.Delay, test.count, test.delay)
			}
		})
	}
}

func TestAChannelHasAPolicyOfItsOwn(t *testing.T) {
	s := withChannel(config.Stream{Retry: config.Retry{Step: time.Second}}, config.Channel{}, "STREAMS_ORDERS_RETRY_COUNT=7", "STREAMS_ORDERS_RETRY_DELAY=2s",
		"STREAMS_ORDERS_CHANNELS_SLOW_RETRY_POLICY=schedule", "STREAMS_ORDERS_CHANNELS_SLOW_RETRY_SCHEDULE=1s,1m")
	cfg := load(t, s).Stream("orders")
	if got := cfg.Of("slow").Retry; *got.Count != 2 || !slices.Equal(got.Schedule, []time.Duration{time.Second, time.Minute}) {
		t.Errorf("the channel's: %d, %v", *got.Count, got.Schedule)
	}
	if *cfg.Retry.Count != 7 || cfg.Retry.Policy != config.Linear {
		t.Errorf("the stream's: %d, %s", *cfg.Retry.Count, cfg.Retry.Policy)
	}
}

func TestAChannelRetriesWhereItsStreamDoesNot(t *testing.T) {
	cfg := load(t, withChannel(config.Stream{}, config.Channel{}, "RETRY_ENABLED=false", "ON_FAILURE=drop"))
	of := cfg.Stream("orders").Of("slow")
	if !*of.Retry.Enabled || *cfg.Stream("orders").Retry.Enabled || of.OnFailure != "retry" {
		t.Errorf("the channel's %v, %s, the stream's %v", *of.Retry.Enabled, of.OnFailure, *cfg.Stream("orders").Retry.Enabled)
	}
}

// Each has one clear error, and all are told at once.
func TestEachWrongSettingOfAChannelIsOneMistake(t *testing.T) {
	const of = "STREAMS_ORDERS_CHANNELS_SLOW_"
	type mistake struct{ name, variable, want string }
	together := []mistake{
		{"off", of + "RETRY_ENABLED=false", of + `RETRY_ENABLED: "false" cannot be: what a channel is handed over waits in RabbitMQ, and so do its failures (from environment ` + of + "RETRY_ENABLED)"},
		{"waits in place", of + "RETRY_IN_PLACE=all", of + `RETRY_IN_PLACE: "all" cannot be: what a channel is handed over comes from RabbitMQ, which does not wait for as long as a message may rest in place (from environment ` + of + "RETRY_IN_PLACE)"},
		{"no worker", of + "CONCURRENCY=-1", of + `CONCURRENCY: "-1" is not within 1 to 1999`},
		{"time beyond the broker's", of + "HANDLER_TIMEOUT=20m", of + `HANDLER_TIMEOUT: "20m" is above half of RABBITMQ_CONSUMER_TIMEOUT (15m)`},
		{"deaths", of + "CRASH_LIMIT=101", of + `CRASH_LIMIT: "101" is not within 0 to 100`},
		{"a policy that there is not", of + "RETRY_POLICY=fibonacci", of + `RETRY_POLICY: "fibonacci" is not known; known: linear, exponential, schedule`},
		{"a channel that no code registers", "STREAMS_ORDERS_CHANNELS_SLO_RETRY_COUNT=3", `STREAMS_ORDERS_CHANNELS_SLO_RETRY_COUNT: no code registers such a channel of stream "orders"; did you mean STREAMS_ORDERS_CHANNELS_SLOW_RETRY_COUNT?`},
		{"what is for streams alone", of + "GROUP=x", of + "GROUP: a channel has no such setting: it is for the stream"},
		{"its stream's, told once", "STREAMS_ORDERS_RETRY_COUNT=-1", `STREAMS_ORDERS_RETRY_COUNT: "-1" is not within 0 to 1000`},
	}
	alone := []mistake{ // what does not go together with those above
		{"no time", of + "HANDLER_TIMEOUT=-1s", of + `HANDLER_TIMEOUT: "-1s" must be above 0`},
		{"no number", of + "RETRY_COUNT=many", of + `RETRY_COUNT: "many" is no whole number`},
		{"what is for another policy", of + "RETRY_FACTOR=3", of + `RETRY_FACTOR: "3" is not for RETRY_POLICY=linear: set ` + of + `RETRY_POLICY=exponential, or leave it out (from`},
		{"what is for another policy than its stream's", "STREAMS_ORDERS_RETRY_POLICY=linear RETRY_FACTOR=3", `RETRY_FACTOR: "3" is not for STREAMS_ORDERS_RETRY_POLICY=linear: set STREAMS_ORDERS_RETRY_POLICY=exponential, or leave it out (from`},
	}
	for _, test := range slices.Concat(together, alone) {
		t.Run(test.name, func(t *testing.T) {
			_, err := config.Load(withChannel(config.Stream{}, config.Channel{}, strings.Fields(test.variable)...))
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Count(err.Error(), "\n") != 1 {
				t.Errorf("got %v, want only %s", err, test.want)
			}
		})
	}
	var all []string
	for _, test := range together {
		all = append(all, test.variable)
	}
	_, err := config.Load(withChannel(config.Stream{}, config.Channel{}, all...))
	if err == nil || strings.Count(err.Error(), "\n") != len(all) {
		t.Errorf("%d mistakes at once: %v", len(all), err)
	}
}

func TestTheFileNamesOnlyChannelsThatTheCodeRegisters(t *testing.T) {
	tests := []struct{ name, file, want string }{
		{"another name", "streams:\n  orders:\n    channels:\n      slo:\n        concurrency: 3\n", `streams.orders.channels.slo in %s: no code registers channel "slo" of stream "orders"; did you mean slow?`},
		{"a stream without any", "streams:\n  parcels:\n    channels:\n      slow:\n        concurrency: 3\n", `streams.parcels.channels in %s: no code registers channels of stream "parcels"`},
		{"a key that is none", "streams:\n  orders:\n    channels:\n      slow:\n        topics: [a]\n", "streams.orders.channels.slow.topics in %s is no setting"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := withChannel(config.Stream{}, config.Channel{})
			s.Streams["parcels"] = config.Stream{Topics: []string{"p"}}
			s.File = filepath.Join(t.TempDir(), "settings.yaml")
			if err := os.WriteFile(s.File, []byte(test.file), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := config.Load(s)
			if want := fmt.Sprintf(test.want, s.File); err == nil || !strings.Contains(err.Error(), want) || strings.Count(err.Error(), "\n") != 1 {
				t.Errorf("got %v, want only %s", err, want)
			}
		})
	}
}

func TestNamesOfChannelsThatCouldMeanAnotherDoNotStart(t *testing.T) {
	tests := []struct {
		name    string
		streams map[string][]string // channels by stream
		want    string
	}{
		{"a stream that is called as a channel's settings are", map[string][]string{"a": {"b"}, "a_channels_b": nil},
			`channel "b" of stream "a" and stream "a_channels_b" would both be set by STREAMS_A_CHANNELS_B_HANDLER_TIMEOUT: rename one of them`},
		{"the same with a dash", map[string][]string{"a": {"b"}, "a-channels-b": nil}, "would both be set by"},
		{"two channels of one stream", map[string][]string{"a": {"b-c", "b_c"}}, `channel "b-c" of stream "a" and channel "b_c" of stream "a" would both be set by`},
		{"channels of two streams", map[string][]string{"a": {"b_channels_c"}, "a_channels_b": {"c"}}, `channel "b_channels_c" of stream "a" and channel "c" of stream "a_channels_b" would`},
		{"a name that queues cannot have", map[string][]string{"a": {"b.c"}}, `channel "b.c" of stream "a": a name must be of a-z`},
		{"no name", map[string][]string{"a": {""}}, `channel "" of stream "a": a name must be of a-z`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := config.Load(named(test.streams))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

// named is a source with these streams and channels.
func named(all map[string][]string) config.Source {
	s := source()
	s.Streams = map[string]config.Stream{}
	for id, channels := range all {
		of := config.Stream{Topics: []string{"t"}, Channels: map[string]config.Channel{}}
		for _, name := range channels {
			of.Channels[name] = config.Channel{}
		}
		s.Streams[id] = of
	}
	return s
}

// Whatever streams and channels are called: if they start, each setting of each has a variable of
// its own, and each its own queues.
func TestWhatStartsHasAVariableForEachSettingAndNoTwoHaveTheSameQueues(t *testing.T) {
	word := rapid.StringMatching(`([abc]|channels?|retry)([_-]([abc]|channels?|retry|count)){0,3}`)
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.MapOfN(word, rapid.SliceOfNDistinct(word, 0, 2, rapid.ID[string]), 1, 3).Draw(t, "streams")
		cfg, err := config.Load(named(all))
		if err != nil {
			t.Skip("refused")
		}
		var b strings.Builder
		if err := cfg.Print(&b); err != nil {
			t.Fatal(err)
		}
		variables, queues := map[string]bool{}, map[string]bool{}
		for line := range strings.Lines(b.String()) {
			name, _, _ := strings.Cut(line, " ")
			if variables[name] {
				t.Fatalf("%v: %s is there twice", slices.Sorted(maps.Keys(all)), name)
			}
			variables[name] = true
		}
		for id, channels := range all {
			for _, name := range append(channels, "") {
				q := id + ".channel." + name
				if name == "" {
					q = id
				}
				if queues[q] {
					t.Fatalf("%v: queues %s.… of two", all, q)
				}
				queues[q] = true
			}
		}
	})
}
