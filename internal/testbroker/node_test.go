package testbroker

import (
	"fmt"
	"testing"
)

func TestASampleIsOneReleaseForATestAndAllWhereAllAreAskedFor(t *testing.T) {
	t.Setenv(EnvReleases, "")
	const tests = 200
	has := map[string]int{}
	for i := range tests {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			once, again := Sample(t, Releases()), Sample(t, Releases())
			if len(once) != 1 || once[0] != again[0] {
				t.Fatalf("%v, then %v", once, again)
			}
			has[once[0]]++
		})
	}
	for _, release := range Releases() {
		if has[release] < tests/3 {
			t.Errorf("%d of %d tests have the %s", has[release], tests, release)
		}
	}
	t.Setenv(EnvReleases, "all")
	if all := Sample(t, Releases()); len(all) != len(Releases()) {
		t.Errorf("all are %v", all)
	}
	if none := Sample(t, []Node{}); len(none) != 0 {
		t.Errorf("of none there are %v", none)
	}
}
