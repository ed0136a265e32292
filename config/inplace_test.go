package config_test

import (
	"errors"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/config"
)

func TestWaitsInPlaceAreThoseOfTheStreamElseTheSharedOnes(t *testing.T) {
	tests := []struct {
		name    string
		code    string
		environ []string
		want    int
	}{
		{"none by default", "", nil, 0},
		{"a number for all streams", "", []string{"RETRY_IN_PLACE=2"}, 2},
		{"a stream's own", "", []string{"RETRY_IN_PLACE=2", "STREAMS_ORDERS_RETRY_IN_PLACE=all"}, math.MaxInt},
		{"in the code", config.All, nil, math.MaxInt},
		{"a variable over the code", config.All, []string{"STREAMS_ORDERS_RETRY_IN_PLACE=0"}, 0},
		{"more than there are retries", "", []string{"RETRY_IN_PLACE=7"}, 7},
		{"all for all streams, but for one whose retries are off", "", []string{"RETRY_IN_PLACE=all", "STREAMS_ORDERS_RETRY_ENABLED=false"}, math.MaxInt},
		{"a quarter of an hour four times", "", []string{"RETRY_IN_PLACE=all", "RETRY_DELAY=15m", "RETRY_COUNT=4"}, math.MaxInt},
		{"what is too long comes after the waits in place", "", []string{"RETRY_IN_PLACE=2", "RETRY_POLICY=schedule", "RETRY_SCHEDULE=1s,10s,24h"}, 2},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := source(test.environ...)
			s.Streams = map[string]config.Stream{"orders": {Topics: []string{"t"}, Retry: config.Retry{InPlace: test.code}}}
			if got := load(t, s).Stream("orders").Retry.WaitsInPlace(); got != test.want {
				t.Errorf("%d waits, want %d", got, test.want)
			}
		})
	}
}

func TestWhatDoesNotFitInPlaceIsToldBesideAllOtherMistakes(t *testing.T) {
	_, err := config.Load(source("RETRY_IN_PLACE=all", "RETRY_DELAY=20m", "RETRY_JITTER=2", "ORDER=any"))
	var all config.Errors
	if !errors.As(err, &all) || len(all) != 3 || !strings.Contains(err.Error(), "RETRY_IN_PLACE") {
		t.Errorf("got %v, want three mistakes", err)
	}
}

func TestWhatIsSaidToFitInPlaceFits(t *testing.T) {
	setting := regexp.MustCompile(`(RETRY_[A-Z_]+)=(\S+?),? `)
	for _, env := range []string{
		"RETRY_DELAY=20m", "RETRY_DELAY=20m RETRY_COUNT=10", "RETRY_DELAY=20m RETRY_STEP=1m", "RETRY_DELAY=16m RETRY_POLICY=exponential",
		"RETRY_DELAY=20m RETRY_STEP=20m", "RETRY_DELAY=10m RETRY_COUNT=20", "RETRY_POLICY=schedule RETRY_SCHEDULE=1s,16m",
	} {
		wrong := source(append([]string{"RETRY_IN_PLACE=all"}, strings.Fields(env)...)...)
		_, err := config.Load(wrong)
		if err == nil {
			t.Errorf("%s: it fits", env)
			continue
		}
		_, says, _ := strings.Cut(err.Error(), "the most ")
		ways := setting.FindAllString(says, -1)
		if len(ways) == 0 {
			t.Errorf("%s: no way out: %v", env, err)
		}
		for _, way := range ways {
			right := wrong
			right.Environ = append(slices.Clone(wrong.Environ), strings.Trim(way, ", "))
			if _, err := config.Load(right); err != nil {
				t.Errorf("%s with %s: %v", env, way, err)
			}
		}
	}
}

func TestAStreamWithABatchHasWaitsInPlaceUnlessItsMessagesComeFromAQueue(t *testing.T) {
	s := source("RETRY_IN_PLACE=all")
	s.Batches = map[string]bool{"orders": true}
	if got := load(t, s).Stream("orders").Retry.InPlace; got != config.All {
		t.Errorf("what reads Kafka has %s", got)
	}
	s.Streams = map[string]config.Stream{"orders": {Queue: "payments"}}
	if got := load(t, s).Stream("orders").Retry.InPlace; got != "0" {
		t.Errorf("what consumes a queue has %s", got)
	}
	s.Environ = append(s.Environ, "STREAMS_ORDERS_RETRY_IN_PLACE=all")
	if _, err := config.Load(s); err == nil || !strings.Contains(err.Error(), `STREAMS_ORDERS_RETRY_IN_PLACE: is for streams that read Kafka`) {
		t.Errorf("its own: %v", err)
	}
}
