package retry

import (
	"testing"

	"github.com/stepwell/stepwell"
)

func TestAPartitionHasTheNumberThatWasToldLastAndLeavesTheOthers(t *testing.T) {
	var l logs
	here, beside := stepwell.Origin{Topic: "a", Partition: 1}, stepwell.Origin{Topic: "a", Partition: 2}
	if l.of(here) != 0 {
		t.Error("a number before any was told")
	}
	l.set("a", 1, 7)
	l.set("a", 2, 8)
	l.set("a", 1, 9)
	if l.of(here) != 9 || l.of(beside) != 8 || l.of(stepwell.Origin{}) != 0 {
		t.Errorf("%d, and %d beside", l.of(here), l.of(beside))
	}
}
