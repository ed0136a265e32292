package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/config"
)

func TestAProcessRunsTheModesThatItIsGiven(t *testing.T) {
	cfg := load(t, source())
	if !cfg.Runs(config.ModeStreams) || !cfg.Runs(config.ModeRetries) || !cfg.Runs(config.ModeChannels) || !cfg.Runs(config.ModeAPI) || len(cfg.ModesLeftOut()) != 0 || !cfg.Reads("orders") {
		t.Errorf("by default it runs %q", cfg.Modes)
	}
	cfg = load(t, source("MODES=retries, api"))
	if cfg.Runs(config.ModeStreams) || !cfg.Runs(config.ModeRetries) || strings.Join(cfg.ModesLeftOut(), " ") != "streams channels" || cfg.Reads("orders") {
		t.Errorf("it runs %q and leaves out %q", cfg.Modes, cfg.ModesLeftOut())
	}
}

func TestWhatReadsNothingNeedsNeitherKafkaNorTopics(t *testing.T) {
	none := func(environ ...string) config.Source {
		return config.Source{AppName: "shop", Streams: map[string]config.Stream{"orders": {}}, Environ: append([]string{"RABBITMQ_URL=amqp://h"}, environ...)}
	}
	for _, fine := range []string{"MODES=retries", "MODES=api", "MODES=channels,api", "STREAMS_ORDERS_RETIRED=true"} {
		load(t, none(fine))
	}
	for _, wrong := range []string{"MODES=streams", "MODES=streams,api", "RETRY_COUNT=3"} {
		_, err := config.Load(none(wrong))
		if err == nil || !strings.Contains(err.Error(), "KAFKA_BROKERS: is required") || !strings.Contains(err.Error(), "STREAMS_ORDERS_TOPICS: is required") {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}

func TestAModeThatIsWrongDoesNotHideWhatTheOneThatWasMeantNeeds(t *testing.T) {
	for modes, kafka := range map[string]bool{"stream": true, "api,Streams": true, "apis": false, "retires,api": false, "workers,api": false, "workers": true, ",": true} {
		_, err := config.Load(config.Source{
			AppName: "shop", Streams: map[string]config.Stream{"orders": {}}, Environ: []string{"MODES=" + modes},
		})
		text := fmt.Sprint(err)
		if !strings.Contains(text, "MODES: ") || !strings.Contains(text, "RABBITMQ_URL: is required") {
			t.Errorf("%s: %s", modes, text)
		}
		for _, setting := range []string{"KAFKA_BROKERS", "STREAMS_ORDERS_TOPICS"} {
			if strings.Contains(text, setting+": is required") != kafka {
				t.Errorf("%s: %s is required: %v", modes, setting, !kafka)
			}
		}
	}
}

func TestEachWrongModeAndRetirementIsOneMistake(t *testing.T) {
	tests := []struct {
		name    string
		environ []string
		want    string
	}{
		{"an unknown one", []string{"MODES=streams,workers"}, `MODES: "workers" is not known; known: streams, retries, channels, api (from environment MODES)`},
		{"one twice", []string{"MODES=api,api"}, `MODES: "api" is there twice`},
		{"none", []string{"MODES=,"}, "MODES: is empty: a process without any mode does nothing"},
		{"in capitals", []string{"MODES=Streams"}, `MODES: "Streams" is not known`},
		{"retries where there are none", []string{"MODES=retries", "RETRY_ENABLED=false"}, `MODES: "retries" leaves nothing to run: no stream has such a part`},
		{"channels where there are none", []string{"MODES=channels"}, `MODES: "channels" leaves nothing to run`},
		{"streams where all are retired", []string{"MODES=streams", "STREAMS_ORDERS_RETIRED=true"}, `MODES: "streams" leaves nothing to run`},
		{"retired without queues", []string{"STREAMS_ORDERS_RETIRED=true", "STREAMS_ORDERS_RETRY_ENABLED=false"},
			`STREAMS_ORDERS_RETIRED: "true" is for streams with queues to drain, and with STREAMS_ORDERS_RETRY_ENABLED=false nothing is drained: set it to true where messages wait from before, or take the stream out of the code`},
		{"retired, perhaps", []string{"STREAMS_ORDERS_RETIRED=soon"}, `STREAMS_ORDERS_RETIRED: "soon" is no true or false`},
		{"a retired stream that has left the code", []string{"STREAMS_REFUNDS_RETIRED=true"}, "STREAMS_REFUNDS_RETIRED: no code registers such a stream: one that is retired keeps its handlers until /v1/streams says that it may go"},
		{"all streams retired at once", []string{"RETIRED=true"}, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := config.Load(source(test.environ...))
			switch {
			case test.want == "":
				if err != nil {
					t.Errorf("a variable that is none of ours is a mistake: %v", err)
				}
			case err == nil || !strings.Contains(err.Error(), test.want) || strings.Count(err.Error(), "\n") != 1:
				t.Errorf("got %v, want only %s", err, test.want)
			}
		})
	}
	_, err := config.Load(source("MODES=streams,workers,api,api", "STREAMS_ORDERS_RETRY_ENABLED=false", "STREAMS_ORDERS_RETIRED=true"))
	if err == nil || strings.Count(err.Error(), "\n") != 3 {
		t.Errorf("all at once: %v", err)
	}
}
