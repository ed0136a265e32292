package config_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/config"
)

func TestStreamsThatCannotRunTogetherDoNotStart(t *testing.T) {
	topics := config.Stream{Topics: []string{"t"}}
	tests := []struct {
		name    string
		streams map[string]config.Stream
		says    string
	}{
		{"none", nil, "no streams"},
		{"one without topics", map[string]config.Stream{"a": {}}, "STREAMS_A_TOPICS: is required, or STREAMS_A_TOPIC_PATTERN; for messages of RabbitMQ STREAMS_A_QUEUE or STREAMS_A_EXCHANGE"},
		{"one whose pattern is none", map[string]config.Stream{"a": {TopicPattern: "a("}}, "STREAMS_A_TOPIC_PATTERN: \"a(\" is no regular expression of Go: missing closing )"},
		{"a topic that cannot be", map[string]config.Stream{"a": {Topics: []string{"fine", "a b"}}}, `STREAMS_A_TOPICS: "a b" is no name that a topic of Kafka can have`},
		{"a topic of 250 characters", map[string]config.Stream{"a": {Topics: []string{strings.Repeat("t", 250)}}}, "is no name that a topic of Kafka can have"},
		{"a topic of dots", map[string]config.Stream{"a": {Topics: []string{".."}}}, "is no name that a topic of Kafka can have"},
		{"two with the same variables", map[string]config.Stream{"a-b": topics, "a_b": topics}, "rename one of them"},
		{"two of one group", map[string]config.Stream{"a": {Topics: []string{"t"}, Group: "g"}, "b": {Topics: []string{"t"}, Group: "g"}}, `STREAMS_B_GROUP: "g" is the consumer group of stream "a" too`},
		{"a queue of blanks", map[string]config.Stream{"a": {Queue: "  "}}, "STREAMS_A_QUEUE: \"  \" has only blanks"},
		{"an exchange of blanks", map[string]config.Stream{"a": {Exchange: "  ", RoutingKeys: []string{"#"}}}, "STREAMS_A_EXCHANGE: \"  \" has only blanks"},
		{"one with a dot in its id", map[string]config.Stream{"a.b": topics}, `stream "a.b"`},
		{"one with too long an id", map[string]config.Stream{strings.Repeat("a", 61): topics}, "at most 60"},
		{"one whose code has a bad value", map[string]config.Stream{"a": {Topics: []string{"t"}, Concurrency: -1}}, `STREAMS_A_CONCURRENCY: "-1" is not within 1 to 1999 (from code)`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := source()
			s.Streams = test.streams
			_, err := config.Load(s)
			var all config.Errors
			if !errors.As(err, &all) || len(all) != 1 || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v, want only %s", err, test.says)
			}
		})
	}
}

func TestAllMistakesAreReportedAtOnceAndASharedOneOnce(t *testing.T) {
	s := source("RETRY_POLICY=schedule", "HANDLER_TIMEOUT=x", "STREAMS_PAYMENTS_START=never", "SERVER_ADDRESS=::")
	s.Streams["payments"] = config.Stream{Topics: []string{"p"}}
	_, err := config.Load(s)
	if err == nil {
		t.Fatal("loaded")
	}
	lines := strings.Split(err.Error(), "\n")
	want := []string{"the configuration", "HANDLER_TIMEOUT", "RETRY_POLICY", "SERVER_ADDRESS", "STREAMS_PAYMENTS_START"}
	if len(lines) != len(want) {
		t.Fatalf("got %d lines:\n%v", len(lines), err)
	}
	for i, line := range lines {
		if !strings.HasPrefix(strings.TrimSpace(line), want[i]) {
			t.Errorf("line %d is %q, want %s", i, line, want[i])
		}
	}
}

func TestRabbitMQIsRequiredOnlyWhereAStreamRetries(t *testing.T) {
	tests := []struct {
		name, variables string
		embedded        bool
		says            string
	}{
		{"retries and no broker", "KAFKA_BROKERS=k:1", false, "RABBITMQ_URL: is required"},
		{"retries off in all streams", "KAFKA_BROKERS=k:1 RETRY_ENABLED=false", false, ""},
		{"retries off in one of two", "KAFKA_BROKERS=k:1 STREAMS_A_RETRY_ENABLED=false", false, "RABBITMQ_URL: is required"},
		{"a queue as source", "STREAMS_A_QUEUE=q KAFKA_BROKERS=k:1", false, "RABBITMQ_URL: is required by stream a, whose messages come from RabbitMQ"},
		{"no cluster", "RETRY_ENABLED=false", false, "KAFKA_BROKERS: is required"},
		{"embedded brokers", "", true, ""},
		{"dropping where retries are off", "KAFKA_BROKERS=k:1 RETRY_ENABLED=false ON_FAILURE=drop", false, ""},
		{"a handler as long as it likes where retries are off", "KAFKA_BROKERS=k:1 RETRY_ENABLED=false HANDLER_TIMEOUT=5h", false, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := config.Load(config.Source{
				AppName: "shop", Embedded: test.embedded, Environ: append([]string{}, strings.Fields(test.variables)...),
				Streams: map[string]config.Stream{"a": {Topics: []string{"t"}}, "b": {TopicPattern: "t.*"}},
			})
			switch {
			case test.says == "" && err != nil:
				t.Error(err)
			case test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says)):
				t.Errorf("got %v, want %s", err, test.says)
			}
		})
	}
}
