package console

import "testing"

func TestARowSaysWhyWhatMattersMostFirst(t *testing.T) {
	const because, until = "a call has run for 26s", "2026-11-30T10:11:09Z"
	for name, c := range map[string]struct {
		of   lineJSON
		want string
	}{
		"well":             {lineJSON{}, ""},
		"it is stuck":      {lineJSON{Stuck: true, Because: because, Suspect: "x"}, because},
		"an error is more": {lineJSON{Stuck: true, Because: because, Error: "no right"}, "no right"},
		"a suspect runs":   {lineJSON{Suspect: "x"}, "may have ended the process, and runs now, with no other such message beside it: x"},
		"a suspect waits":  {lineJSON{Suspect: "x", TriedUntil: until}, "may have ended the process, and waits until " + until + " before it runs again or is condemned: x"},
	} {
		if got := c.of.row(choice{}).Detail; got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}
