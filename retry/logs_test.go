package retry

import (
	"testing"

	"github.com/stepwell/stepwell"
)

func TestForgettingAPartitionGivesItAnotherNumberAndLeavesTheOthers(t *testing.T) {
	var l logs
	here, beside := stepwell.Origin{Topic: "a", Partition: 1}, stepwell.Origin{Topic: "a", Partition: 2}
	if l.of(here) != 0 {
		t.Error("a number before anything happened")
	}
	l.begin("a", 1)
	first := l.of(here)
	l.begin("a", 1)
	if second := l.of(here); first == 0 || second == 0 || first == second || l.of(beside) != 0 {
		t.Errorf("%d, then %d; %d beside", first, second, l.of(beside))
	}
}
