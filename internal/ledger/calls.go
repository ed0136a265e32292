package ledger

// calls knows of the records that were handed out as much as marks need: before which offset all
// calls are over. An owner that dies cannot have died of those.
type calls struct {
	handedOut    int64              // all before this offset were
	handedBefore int64              // the same at the last commit
	pending      map[int64]struct{} // their call is over, and they are settled later
	resting      map[int64]struct{} // their call rests between its tries
}

func newCalls() calls { return calls{pending: map[int64]struct{}{}, resting: map[int64]struct{}{}} }

func (c *calls) rest(offset int64, begins bool) {
	if begins {
		c.resting[offset] = struct{}{}
	} else {
		delete(c.resting, offset)
	}
}

// ended is the offset before which every call is over, or rests.
func (c *calls) ended(w *window) int64 {
	for offset := range w.Open {
		_, pending := c.pending[offset]
		_, rests := c.resting[offset]
		if !pending && !rests {
			return min(offset, c.handedOut)
		}
	}
	return c.handedOut
}
