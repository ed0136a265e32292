package deadset

import "testing"

// Time may empty the first run of a trash between two turns of a restore: then all that it has not
// come to has lower numbers than what it has.
func TestAPassBeginsAnewWherePartsHaveOtherNumbersOrMoreMessages(t *testing.T) {
	at := pass{operation: "op", next: 300, done: 2, paged: 9}
	for _, test := range []struct {
		paged  int
		turned bool
		next   int
	}{{9, false, 300}, {7, false, 300}, {10, false, 0}, {9, true, 0}} {
		if got := at.among(test.paged, test.turned); got.next != test.next || got.done != 2 || got.paged != test.paged || got.turned != test.turned {
			t.Errorf("%+v: %+v", test, got)
		}
	}
}
