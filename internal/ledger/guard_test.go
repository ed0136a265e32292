package ledger

import "testing"

// Deaths are held against a record only as long as it does not come to its end: one that fails, and
// is called again in place, ends no process by that.
func TestDeathsBeforeASuspectCameToItsEndAreForgotten(t *testing.T) {
	const at, limit = 5, 3
	said := Mark{}
	for life := uint32(1); life <= 6*limit; life++ {
		g := NewGuard(said, at, Rules{Limit: limit, Owner: life})
		commit := func() {
			said = g.Mark(at, at, at+1, 0, 1, false)
			g.Stored(said)
		}
		commit()
		if !g.Suspects(at) {
			if life > limit {
				t.Fatalf("life %d: nothing is suspected: %+v", life, said)
			}
			continue // and dies
		}
		if g.Review(func(uint32) bool { return false }) {
			t.Fatalf("life %d: it came to its end in each life, and %d deaths are held against it", life, len(g.Now().Died))
		}
		g.Announce(at)
		commit()
		g.Returned(at)
		commit()
		g.Announce(at) // its next try, in which the process dies of something else
		commit()
		if !g.MayRun(at) {
			t.Fatalf("life %d: %+v", life, said)
		}
	}
}
