package console_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/server/console"
)

// The tests that walk all routes, with a session and without, walk those of a list: a page that is
// missing there would be looked at by none of them.
func TestTheRoutesThatTestsWalkAreAllOfTheConsole(t *testing.T) {
	t.Parallel()
	var walked []string
	for _, r := range routes() {
		path, _, _ := strings.Cut(r.path, "?")
		walked = append(walked, strings.Replace(r.method, "HEAD", "GET", 1)+" "+path)
	}
	slices.Sort(walked)
	walked = slices.Compact(walked)
	served := console.Routes()
	slices.Sort(served)
	if !slices.Equal(walked, served) {
		t.Errorf("walked %q\nserved %q", walked, served)
	}
}
