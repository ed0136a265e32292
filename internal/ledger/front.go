package ledger

import "time"

// front knows which record of a partition is the first open one, and since when. It has no clock:
// it is shown the window now and then, and messages cost nothing.
type front struct {
	offset int64
	since  time.Time // zero: there is none
}

// see notes which record is the first open one now, if one is, and returns since when it is that.
func (f *front) see(first int64, open bool, now time.Time) time.Time {
	if !open {
		*f = front{}
	} else if f.since.IsZero() || f.offset != first {
		*f = front{first, now}
	}
	return f.since
}
