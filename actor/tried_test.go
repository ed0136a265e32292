package actor

import (
	"strings"
	"testing"
	"time"
)

func TestAProbeSaysUntilWhenASuspectWaitsOfWhichTheProcessDied(t *testing.T) {
	if said := tried(time.Time{}); said != "" {
		t.Errorf("of one that runs it says %q", said)
	}
	until := time.Date(2026, 11, 30, 3, 4, 5, 0, time.UTC)
	if said := tried(until); !strings.Contains(said, "waits until 2026-11-30T03:04:05Z") {
		t.Errorf("it says %q", said)
	}
}
