package ledger

// Checkpoint is what the next commit is to say while so many calls run, with at most limit bytes of
// metadata. It reports false where the broker has all of that already.
func (l *Ledger) Checkpoint(limit, running int) (c Checkpoint, dirty bool) {
	next, ok := l.window.Committable()
	c = Checkpoint{At: l.inherited.past(next), changes: l.changes}
	if !ok {
		return c, false
	}
	mark, urgent := l.mark(running)
	urgent = urgent || l.restate
	// Nothing was settled, and nobody waits for what the mark would say: the text is not even made.
	if l.changes == l.sent.changes && !urgent {
		return c, false
	}
	if mark != nil {
		c.mark = *mark
	}
	says := l.inherited.extended(l.topicID, l.epoch, mark)
	says.Log = l.Log.Number
	c.Metadata = WriteMetadata(c.At.Offset, says, l.inherited.beyond(&l.window), limit)
	return c, urgent || c.At.Offset != l.sent.At.Offset || c.Metadata != l.sent.Metadata
}

// Stored notes a commit that the broker has.
func (l *Ledger) Stored(c Checkpoint) {
	l.sent, l.restate = c, false
	if l.Guard.Counts() {
		l.calls.handedBefore = l.calls.handedOut
		l.Guard.Stored(c.mark)
	}
}

// mark is what the next commit says of deaths, nil where nothing is to be said, and whether it must
// be sent though nothing else changed.
func (l *Ledger) mark(running int) (m *Mark, urgent bool) {
	if !l.Guard.Counts() {
		return nil, false
	}
	if a := l.Guard.now.Accused; a >= 0 && l.window.Settled(a) {
		l.Guard.Acquit(a)
	}
	ended := int64(0) // where nothing is suspected it is not looked for
	if !l.Guard.Free() {
		ended = l.calls.ended(&l.window, l.Rests)
	}
	ahead := firstLead + 2*max(0, l.calls.handedOut-l.calls.handedBefore)
	running -= len(l.Rests)
	says := l.Guard.Mark(l.FirstOpen(), ended, l.calls.handedOut, ahead, running, l.parting)
	if l.sentence >= 0 && !l.window.Settled(l.sentence) {
		says.Condemned = max(0, says.Condemned-1) // the next owner counts it, if need be
	}
	return &says, l.Guard.Urges(says)
}
