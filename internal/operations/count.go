package operations

import (
	"context"
	"fmt"
	"time"
)

// onTheWay is how long a message may be on its way from its death to the dead set.
const onTheWay = 2 * time.Second

// count looks how many match. Where none does the operation is over; where more do than are
// expected it is refused, or paused if it has begun.
func (w *worker) count(ctx context.Context) (goesOn bool, err error) {
	// The process that was asked may have had other settings. Whether it was alone is not asked
	// once more, of a sort: who runs it may be another.
	if !Sorts(w.l.request.Action) {
		if err := w.set.May(ctx, &w.l.request); err != nil {
			return false, err
		}
	}
	sample, err := w.look(ctx)
	if err != nil {
		return false, err
	}
	noteSaved(w, time.Time{}) // who goes on after a kill has to know what there was
	at, err := w.tell(ctx, func(s *State) {
		s.Why = ""
		if w.cutOff {
			s.find(&sample, announces(w, s))
		}
		// What is too large only a turn finds out.
		sample.LeftOut.TooLarge = s.LeftOut.TooLarge
		// What a turn that was cut off may have done is counted: a later look does not see it, as
		// if it had never been there.
		matched := s.sent() + sample.Matched
		if Sorts(w.l.request.Action) && s.Matched > 0 {
			matched = min(matched, s.Matched) // what has arrived since it was counted first is none of it
		}
		s.Matched, s.LeftOut = matched, sample.LeftOut
		s.Unsorted, s.Complete = sample.Unsorted, sample.Unsorted == 0
		if s.Causes == nil {
			s.Causes = sample.Causes
		}
	})
	if err != nil {
		return false, err
	}
	cutOff := w.cutOff
	w.cutOff = false
	sample.Nothing = w.r.cfg.nothing(&w.l.request, &sample)
	p, why := verdict(w.l.request.Expect, cutOff, &at, &sample)
	if sample.Nothing != "" && at.sent() == 0 && !cutOff {
		p, why = Refused, sample.Nothing
	}
	w.counted = p == "" || isCanary(w, p, &at)
	if !w.counted {
		w.end(ctx, p, why)
	}
	return w.counted, nil
}

// isCanary says that what would be over has replayed its canary alone: what becomes of that is
// waited for first.
func isCanary(w *worker, p Phase, at *State) bool {
	w.whole = p == Done && w.r.cfg.inCanary(&w.l.request, at) && at.sent() > 0
	return w.whole
}

// verdict is how an operation of which that was found ends, or rests, and why; empty: it goes on.
func verdict(expected *int, cutOff bool, at *State, found *Sample) (p Phase, why string) {
	done := at.sent()
	// Where no number is expected nobody has written down what a turn was to do: see promise.
	untouched := done == 0 && (expected != nil || !cutOff)
	switch {
	case expected != nil && done+found.Matched > *expected && untouched:
		return Refused, fmt.Sprintf("%d match, and %d were expected: nothing was touched. Look again, and ask anew", found.Matched, *expected)
	case expected != nil && done+found.Matched > *expected:
		return Paused, tooMany(found.Matched, *expected, done-at.Done)
	case found.Matched == 0:
		return Done, unseen(found.Unsorted)
	case found.Room != nil && found.Matched > *found.Room && untouched:
		return Refused, full(found)
	case found.Room != nil && found.Matched > *found.Room:
		return Paused, full(found)
	}
	return "", ""
}

// look counts what matches. While messages go on dying some are always on their way: they died
// before somebody looked, and come after that, so that more match than were seen. Where nothing is
// done yet, and leaving out what died in the last two seconds before is enough, that is done.
func (w *worker) look(ctx context.Context) (Sample, error) {
	request, at := &w.l.request, w.now()
	if !at.ActsBefore.IsZero() {
		request.Before = at.ActsBefore
	}
	sample, err := w.set.Sample(ctx, request)
	if err != nil || request.Expect == nil || sample.Matched <= *request.Expect || at.sent() > 0 || !at.ActsBefore.IsZero() {
		return sample, err
	}
	calmer := *request
	calmer.Before = calmer.Before.Add(-onTheWay)
	less, err := w.set.Sample(ctx, &calmer)
	if err != nil || less.Matched == 0 || less.Matched > *request.Expect {
		return sample, err
	}
	request.Before = calmer.Before
	_, err = w.tell(ctx, func(s *State) { s.ActsBefore = calmer.Before })
	return less, err
}

// full says why a delete is not done, or not done further, of more than fits into the trash.
func full(sample *Sample) string {
	return fmt.Sprintf("%d more are to be deleted, and the trash has room for about %d: choose fewer, wait until it has dropped what is old, or delete for good (forever)",
		sample.Matched, *sample.Room)
}

// tooMany says why an operation that has begun does not go on.
func tooMany(match, expected, uncertain int) string {
	why := fmt.Sprintf("%d more match, and %d in all were expected", match, expected)
	if uncertain > 0 {
		why += fmt.Sprintf(", of which a turn that was cut off may have done %d", uncertain)
	}
	return why + ": look again, cancel this one and ask anew"
}

// find corrects what is done by a look after a turn that was cut off: where that look saw all
// messages, and the one before did, what is not there any more is done. Where they did not others
// may have come into view, and what that turn began counts as done where it was announced, since no
// more than so many may be.
func (s *State) find(sample *Sample, announced bool) {
	if !s.Complete || sample.Unsorted > 0 {
		return
	}
	done := max(s.Done, s.Matched-sample.Matched)
	if announced && s.Begun >= s.Done {
		done = max(s.Done, min(done, s.Begun))
		s.Begun = done
	}
	s.Done = done
}
