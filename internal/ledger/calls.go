package ledger

// calls knows of the records that were handed out as much as marks need: before which offset all
// calls are over. An owner that dies cannot have died of those.
type calls struct {
	handedOut    int64              // all before this offset were
	handedBefore int64              // the same at the last commit
	pending      map[int64]struct{} // their call is over, and they are settled later
}

func newCalls() calls { return calls{pending: map[int64]struct{}{}} }

// pass says that nothing was to be handed out before offset: the partition begins there, or what
// was before it is gone. How much was handed out since the last commit stays as it is.
func (c *calls) pass(offset int64) {
	c.handedBefore += offset - c.handedOut
	c.handedOut = offset
}

// ended is the offset before which every call is over. A call that rests before another try is not
// over: that try may end the process.
func (c *calls) ended(w *window, resting Rests) int64 {
	for offset := range w.Open {
		_, pending := c.pending[offset]
		if !pending && !resting.isLast(offset) {
			return min(offset, c.handedOut)
		}
	}
	return c.handedOut
}
