package ledger

import "time"

// Rests are the calls that rest, by the offsets of their records: each until its next try, or, with
// a zero time, after its last one, while its record is on its way elsewhere.
type Rests map[int64]time.Time

// Begin says that a call begins to rest. It is called again at that time; zero: it is not.
func (r Rests) Begin(offset int64, until time.Time) { r[offset] = until }

// End says that a call does not rest any more.
func (r Rests) End(offset int64) { delete(r, offset) }

// Until is when the call for a record that rests is made again; zero: it is not.
func (r Rests) Until(offset int64) time.Time { return r[offset] }

// Waiting is how many are called again.
func (r Rests) Waiting() (n int) {
	for _, until := range r {
		if !until.IsZero() {
			n++
		}
	}
	return n
}

// isLast says that a call rests after its last try.
func (r Rests) isLast(offset int64) bool {
	until, rests := r[offset]
	return rests && until.IsZero()
}
