package backoff_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stepwell/stepwell/internal/backoff"
)

func TestLinearWaitsGrowByAStep(t *testing.T) {
	got := backoff.Linear(5*time.Second, 2*time.Second, 3)
	if want := []time.Duration{5 * time.Second, 7 * time.Second, 9 * time.Second}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestExponentialWaitsGrowByAFactorInWholeMillisecondsUpToTheLongest(t *testing.T) {
	got := backoff.Exponential(10*time.Millisecond, 1.25, 18*time.Millisecond, 5)
	want := []time.Duration{10 * time.Millisecond, 13 * time.Millisecond, 16 * time.Millisecond, 18 * time.Millisecond, 18 * time.Millisecond}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestNoWaitAndNoSumEverWrapsAround(t *testing.T) {
	for name, all := range map[string][]time.Duration{
		"linear":      backoff.Linear(math.MaxInt64-1, time.Hour, 1000),
		"exponential": backoff.Exponential(time.Hour, 100, math.MaxInt64/2, 1000),
	} {
		if !slices.IsSorted(all) || all[0] <= 0 {
			t.Errorf("%s waits wrap around: %v", name, all[:4])
		}
		if sum := backoff.Sum(all); sum != math.MaxInt64 {
			t.Errorf("the sum of %s waits is %d", name, sum)
		}
	}
}

func TestACountBelowZeroIsNoWait(t *testing.T) {
	if n := len(backoff.Linear(time.Second, 0, -1)) + len(backoff.Exponential(time.Second, 2, time.Hour, -1)); n != 0 {
		t.Errorf("%d waits", n)
	}
}
