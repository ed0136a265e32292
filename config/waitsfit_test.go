package config_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/config"
)

func TestAStepAboveTenYearsIsOneMistake(t *testing.T) {
	_, err := config.Load(source("RETRY_STEP=87601h", "RETRY_COUNT=30"))
	if err == nil || strings.Count(err.Error(), "\n") != 1 || !strings.Contains(err.Error(), `RETRY_STEP: "87601h" must be at most 87600h`) {
		t.Errorf("got %v", err)
	}
}

func TestWhatIsSaidToFitOfALinearPolicyFits(t *testing.T) {
	setting := regexp.MustCompile(`(\w+=\w+),? (?:or|fits)`)
	for _, env := range []string{
		"RETRY_STEP=1s RETRY_COUNT=25", "RETRY_STEP=1s RETRY_COUNT=1000", "RETRY_STEP=1000h", "RETRY_STEP=1000h RETRY_COUNT=30", "RETRY_STEP=87600h",
		"RETRY_STEP=1h RETRY_DELAY=1193h", "RETRY_STEP=1ms RETRY_DELAY=4294967295ms RETRY_COUNT=2", "RETRY_STEP=1001ms RETRY_DELAY=4294966295ms RETRY_COUNT=24",
		"STREAMS_ORDERS_RETRY_STEP=52h STREAMS_ORDERS_RETRY_COUNT=24", "RETRY_COUNT=30 STREAMS_ORDERS_RETRY_STEP=60h",
	} {
		wrong := source(strings.Fields(env)...)
		_, err := config.Load(wrong)
		if err == nil || strings.Count(err.Error(), "\n") != 1 {
			t.Errorf("%s: want one mistake: %v", env, err)
			continue
		}
		_, says, _ := strings.Cut(err.Error(), "limit: ")
		ways := setting.FindAllStringSubmatch(says, -1)
		if len(ways) != 2 {
			t.Errorf("%s: want two ways out: %v", env, err)
		}
		for _, way := range ways {
			right := wrong
			right.Environ = append(slices.Clone(wrong.Environ), way[1])
			if _, err := config.Load(right); err != nil {
				t.Errorf("%s with %s: %v", env, way[1], err)
			}
		}
	}
}
