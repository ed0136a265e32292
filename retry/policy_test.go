package retry

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/queue"
)

const s = time.Second

func TestLinearWaitsTheDelayAndAStepLongerEachTime(t *testing.T) {
	tests := []struct {
		name        string
		delay, step time.Duration
		count       int
		want        Budget
		text        string
	}{
		{"constant", 5 * s, 0, 3, Budget{5 * s, 5 * s, 5 * s}, "5s, 5s, 5s: 15s in all, then the dead set"},
		{"growing by a step", 5 * s, 5 * s, 3, Budget{5 * s, 10 * s, 15 * s}, "5s, 10s, 15s: 30s in all, then the dead set"},
		{"a step of its own", 1 * s, 10 * s, 2, Budget{1 * s, 11 * s}, "1s, 11s: 12s in all, then the dead set"},
		{"none", 5 * s, 0, 0, Budget{}, "no retries: the first failure goes to the dead set"},
		{"less than none", 5 * s, 0, -1, Budget{}, "no retries: the first failure goes to the dead set"},
		{"many", 60 * s, 0, 4, Budget{60 * s, 60 * s, 60 * s, 60 * s}, "4 × 1m: 4m in all, then the dead set"},
		{"hours", 3600 * s, 1800 * s, 2, Budget{3600 * s, 5400 * s}, "1h, 1h30m: 2h30m in all, then the dead set"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b := Linear(test.delay, test.step, test.count)
			if !slices.Equal(b, test.want) || b.String() != test.text {
				t.Errorf("%v: %s", []time.Duration(b), b)
			}
		})
	}
}

func TestWaitsThatAreTooLongNeverTurnNegative(t *testing.T) {
	b := Linear(math.MaxInt64/2, math.MaxInt64/2, 5)
	if slices.Min(b) < 0 || b.Total() != math.MaxInt64 {
		t.Errorf("waits %v", []time.Duration(b))
	}
}

func TestEachAttemptHasItsWaitAndTheOneAfterTheLastHasNone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		delay, step := rapid.Int64Range(0, 1e12).Draw(t, "delay"), rapid.Int64Range(0, 1e12).Draw(t, "step")
		count := rapid.IntRange(0, 100).Draw(t, "count")
		b := Linear(time.Duration(delay), time.Duration(step), count)
		for n := 1; n <= count; n++ {
			if wait, ok := b.Wait(n); !ok || int64(wait) != delay+int64(n-1)*step {
				t.Fatalf("wait %d is %v %v", n, wait, ok)
			}
		}
		for _, n := range []int{-1, 0, count + 1} {
			if _, ok := b.Wait(n); ok {
				t.Fatalf("attempt %d has a wait", n)
			}
		}
	})
}

func TestEachDifferentDelayIsAQueueAndTargetsComeFirst(t *testing.T) {
	top, err := NewTopology("shipping", "orders", Budget{5 * s, time.Millisecond / 2, 10 * s, 5 * s, 0}, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := []queue.Spec{
		{Name: "shipping.orders.dead_set", Kind: queue.DeadSet},
		{Name: "shipping.orders.instant", Kind: queue.Instant, Target: "shipping.orders.dead_set"},
		{Name: "shipping.orders.delay.1", Kind: queue.Delay, TTL: time.Millisecond, Target: "shipping.orders.instant"},
		{Name: "shipping.orders.delay.5000", Kind: queue.Delay, TTL: 5 * s, Target: "shipping.orders.instant"},
		{Name: "shipping.orders.delay.10000", Kind: queue.Delay, TTL: 10 * s, Target: "shipping.orders.instant"},
	}
	if got := top.Specs(); !reflect.DeepEqual(got, want) {
		t.Errorf("specs %+v", got)
	}
	if name, ok := top.Delay(3, &stepwell.Message{}); !ok || name != "shipping.orders.delay.10000" {
		t.Errorf("after attempt 3: %s %v", name, ok)
	}
	if _, ok := top.Delay(6, &stepwell.Message{}); ok {
		t.Error("five retries, yet attempt 6 is tried again")
	}
	if name, wait, ok := top.Shortest(); !ok || wait != time.Millisecond || name != "shipping.orders.delay.1" {
		t.Errorf("shortest is %s %v", name, ok)
	}
}

func TestTheWaitsOfAStreamAreToldInASentence(t *testing.T) {
	top, err := NewTopology("shipping", "orders", Linear(5*s, 5*s, 2), 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := top.Waits(); got != "5s, 10s: 15s in all, then the dead set; 4 queues" {
		t.Errorf("waits read: %s", got)
	}
}

func TestDelaysThatCannotBeQueuesAreRefused(t *testing.T) {
	tests := []struct {
		name   string
		delays Budget
		want   string // "" is no error
	}{
		{"24 different ones", Linear(s, s, 24), ""},
		{"25 different ones", Linear(s, s, 25), "25 different delays"},
		{"100 equal ones", Linear(s, 0, 100), ""},
		{"the longest", Budget{maxDelay}, ""},
		{"longer than RabbitMQ's longest", Budget{s, maxDelay + 1}, "retry 2"},
		{"negative", Budget{-1}, "retry 1"},
		{"none", nil, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := NewTopology("a", "b", test.delays, 1, 0)
			if (err != nil) != (test.want != "") || (err != nil && !strings.Contains(err.Error(), test.want)) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestADelayMayHaveSeveralQueuesAndAKeyHasOneOfThem(t *testing.T) {
	top, err := NewTopology("shipping", "orders", Linear(5*s, 5*s, 2), 3, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"shipping.orders.delay.5000", "shipping.orders.delay.5000.2", "shipping.orders.delay.5000.3",
		"shipping.orders.delay.10000", "shipping.orders.delay.10000.2", "shipping.orders.delay.10000.3"}
	if got := top.Delays(); !slices.Equal(got, want) {
		t.Errorf("delays %q", got)
	}
	for _, spec := range top.Specs()[2:] {
		if i := slices.Index(want, spec.Name); i < 0 || spec.TTL != time.Duration(5+5*(i/3))*s || spec.Target != top.Instant {
			t.Errorf("spec %+v", spec)
		}
	}
	used := map[string]int{}
	for i := range 300 {
		m := &stepwell.Message{Key: fmt.Append(nil, "key ", i%100), Origin: stepwell.Origin{Offset: int64(i)}}
		name, _ := top.Delay(1, m)
		m.Origin.Offset += 1000
		if again, _ := top.Delay(1, m); again != name {
			t.Fatalf("a key waits in %s and in %s", name, again)
		}
		used[name]++
		bare, _ := top.Delay(1, &stepwell.Message{Origin: stepwell.Origin{Offset: int64(i)}})
		used[bare]++
	}
	for _, name := range want[:3] {
		if used[name] < 100 {
			t.Errorf("%d of 600 wait in %s", used[name], name)
		}
	}
	for _, width := range []int{-1, 0, MaxWidth + 1} {
		if _, err := NewTopology("a", "b", Linear(s, 0, 1), width, 0); err == nil {
			t.Errorf("%d queues a delay", width)
		}
	}
}
