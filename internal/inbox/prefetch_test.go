package inbox

import (
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

const s = time.Second

func TestPrefetchKeepsWellUnderTheConsumerTimeout(t *testing.T) {
	const half = 30 * time.Minute
	tests := []struct {
		name           string
		workers, limit int
		slow           time.Duration
		want           int
	}{
		{"fast handlers take the limit", 16, 200, 10 * time.Millisecond, 200},
		{"nothing known: as if all ran into their time-out", 16, 200, 5 * time.Minute, 24},
		{"very slow handlers have one to go on with", 16, 200, 15 * time.Minute, 17},
		{"one worker", 1, 200, 5 * time.Minute, 2},
		{"more workers than the limit", 300, 200, s, 301},
		{"a call that takes no time", 16, 200, 0, 200},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := prefetch(test.workers, test.limit, half, test.slow); got != test.want {
				t.Errorf("prefetch %d, want %d", got, test.want)
			}
		})
	}
	rapid.Check(t, func(t *rapid.T) {
		workers, limit := rapid.IntRange(1, 500).Draw(t, "workers"), rapid.IntRange(1, 2000).Draw(t, "limit")
		slow := time.Duration(rapid.Int64Range(0, int64(half/2)).Draw(t, "slow"))
		n := prefetch(workers, limit, half, slow)
		if n <= workers || (n > limit && n != workers+1) {
			t.Fatalf("prefetch %d", n)
		}
		if n > workers+1 && float64(n)/float64(workers)*float64(slow) > float64(half/4)+1 {
			t.Fatalf("prefetch %d takes longer than a quarter of the time-out", n)
		}
	})
}

func TestAnotherPrefetchIsForWhatWaitsWithinTheLimit(t *testing.T) {
	for name, test := range map[string]struct {
		held, inFlight, busy, over, limit int
		gather                            *Gather
		want                              bool
	}{
		"all wait for confirms":               {held: 24, inFlight: 24, limit: 200, want: true},
		"most do":                             {held: 24, inFlight: 14, limit: 200, want: true},
		"half of them need workers":           {held: 24, inFlight: 12, limit: 200},
		"all have workers, or wait for them":  {held: 24, inFlight: 16, busy: 16, limit: 200},
		"many wait, and the last have a call": {held: 120, inFlight: 120, busy: 11, limit: 200, want: true},
		"all wait, and calls are over":        {held: 24, inFlight: 24, over: 16, limit: 200, want: true},
		"as many more are just the limit":     {held: 176, inFlight: 176, limit: 200, want: true},
		"as many more are beyond the limit":   {held: 177, inFlight: 177, limit: 200},
		"they are gathered":                   {held: 24, inFlight: 24, limit: 200, gather: &Gather{Messages: 24}},
	} {
		t.Run(name, func(t *testing.T) {
			in := New(Config{Queue: "q", Prefetch: Prefetch{Messages: test.limit}, Gather: test.gather})
			in.inFlight.Store(int64(test.inFlight))
			for worker := range test.busy + test.over {
				in.slow.begin(worker)
			}
			for worker := range test.over {
				in.slow.end(worker)
			}
			in.slow.time = in.cfg.HandlerTimeout // so that the prefetch stays 24
			if got := in.another(test.held); got != test.want {
				t.Errorf("another prefetch: %v, want %v", got, test.want)
			}
		})
	}
}

func TestLargeMessagesAreFetchedFewAtATimeUntilAHundredSmallOnesWereSeen(t *testing.T) {
	const budget, limit = 64 << 20, 1000
	var l largest
	for _, step := range []struct{ times, bytes, want int }{
		{0, 0, limit},
		{5, 0, limit},
		{100, 1 << 10, limit},
		{1, 16 << 20, 4},
		{10, 1 << 10, 4},
		{200, 1 << 10, 33},
		{1000, 1 << 10, limit},
		{1, 256 << 20, 0},
	} {
		for range step.times {
			l.saw(step.bytes)
		}
		if got := l.fit(Prefetch{Messages: limit, Bytes: budget}); got != step.want {
			t.Errorf("after %d of %d bytes: %d at once, want %d", step.times, step.bytes, got, step.want)
		}
	}
	if got := l.fit(Prefetch{Messages: limit}); got != limit {
		t.Errorf("%d at once though bytes have no limit", got)
	}
	if got := prefetch(16, l.fit(Prefetch{Messages: limit, Bytes: budget}), time.Hour, 0); got != 17 {
		t.Errorf("prefetch %d of messages that are larger than all", got)
	}
}

func TestTheSlowTimeStartsHighFallsSlowlyAndRisesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := newSlowest(2, 5*time.Minute)
		call := func(d time.Duration) {
			slow.begin(0)
			time.Sleep(d)
			slow.end(0)
		}
		call(s)
		if got := slow.now(); got < 4*time.Minute {
			t.Errorf("%v after one fast call", got)
		}
		for range 1000 {
			call(s)
		}
		if got := slow.now(); got != s {
			t.Errorf("%v after a thousand calls of a second", got)
		}
		slow.begin(1)
		call(s)
		time.Sleep(time.Minute)
		if got := slow.now(); got != 61*s {
			t.Errorf("%v while a call runs since 61 s", got)
		}
		slow.end(1)
		if got := slow.now(); got != 61*s {
			t.Errorf("%v after a call of 61 s", got)
		}
	})
}
