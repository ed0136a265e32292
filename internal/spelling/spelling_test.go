package spelling_test

import (
	"testing"

	"github.com/stepwell/stepwell/internal/spelling"
)

func TestASlipIsTakenForTheNameThatWasMeantAndAStrangerForNone(t *testing.T) {
	known := []string{"CONCURRENCY", "CONFIG_FILE", "DEAD_SET_WALK_BYTES", "ORDER", "SERVER_ADDRESS", "SERVER_TOKEN", "count", "log", "topic-entity"}
	for name, want := range map[string]string{
		"CONCURENCY":         "CONCURRENCY",
		"CONFIG_FIEL":        "CONFIG_FILE",
		"DEADSET_WALK_BYTES": "DEAD_SET_WALK_BYTES",
		"CONFICFILE":         "CONFIG_FILE",
		"topicEntity":        "topic-entity",
		"cuont":              "count",
		"lgo":                "log",
		"log":                "log",
		"SERVER_PORT":        "",
		"ODR":                "",
		"foo":                "",
		"lo":                 "",
		"":                   "",
		"PATH":               "",
		"CONCERTO":           "",
	} {
		if got := spelling.Nearest(name, known); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestTheNearestOfSeveralIsMeant(t *testing.T) {
	if got := spelling.Nearest("STREAMS_ORDERS_TOPIC", []string{"STREAMS_BORDERS_TOPICS", "STREAMS_ORDERS_TOPICS", "STREAMS_OLDER_TOPIC"}); got != "STREAMS_ORDERS_TOPICS" {
		t.Error(got)
	}
}
