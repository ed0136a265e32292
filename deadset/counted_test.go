package deadset

import (
	"fmt"
	"testing"
	"time"
)

// No look is to need more memory the more different the errors are.
func TestMoreCausesThanAreToldApartAreCountedAllTheSame(t *testing.T) {
	in := newGroups()
	const causes = maxCounted + 500
	now := time.Now()
	for i := range causes {
		group := fmt.Sprint(i)
		f := found{traits: traits{group: group, id: group, died: now, keyHash: 1, replays: 1}}
		in.of(f).add(f, now)
		in.of(f).add(f, now)
	}
	if len(in.all) != maxCounted || len(in.by) != maxCounted {
		t.Errorf("%d causes are told apart", len(in.all))
	}
	all := in.sorted()
	rest := all[0]
	if want := 2 * (causes - maxGroups + 1); len(all) != maxGroups || rest.Group != "" || rest.Count != want || rest.Replayed != want || rest.Minutes[minutesShown-1] != want || rest.Keys != 1 {
		t.Errorf("%d groups, the rest is %+v", len(all), rest)
	}
}
