package streams

import "testing"

// Nobody would be taken for alive, and what living members run be held against its records.
func TestWhoIsNoMemberDoesNotSayWhoLives(t *testing.T) {
	t.Parallel()
	r, _ := lone(t, newJournal().settleAll)
	if living, err := r.watch.living(t.Context()); err == nil {
		t.Errorf("says that %v live", living)
	}
}
