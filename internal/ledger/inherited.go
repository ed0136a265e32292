package ledger

import (
	"cmp"
	"iter"
)

// inherited is what the commit says from which an assignment began, less the spans that were read.
type inherited struct{ Metadata }

// isOfAnother says that it is about another topic.
func (i *inherited) isOfAnother(topicID [16]byte) bool {
	of := fingerprint(topicID)
	return i.Topic != 0 && of != 0 && i.Topic != of
}

// isCut says that a record of this offset and leader epoch takes the place of one that the owner
// before had read: the log was cut since.
func (i *inherited) isCut(offset int64, epoch int32) bool {
	return epoch > i.Epoch && offset < i.Spans[len(i.Spans)-1].End
}

// knows says whether the owner before settled the record of this offset and leader epoch. It is
// asked in ascending order, in which epochs never fall.
func (i *inherited) knows(offset int64, epoch int32) bool {
	if epoch > i.Epoch {
		i.Spans = nil // the log was cut since, and these are other records
	}
	for len(i.Spans) > 0 && offset >= i.Spans[0].End {
		i.Spans = i.Spans[1:]
	}
	return len(i.Spans) > 0 && offset >= i.Spans[0].First
}

// extended is what a commit now says beside its spans, when records up to this leader epoch were
// read. Inherited spans stay only until a record of a higher epoch than theirs is read: knows then
// drops them.
func (i *inherited) extended(topicID [16]byte, epoch int32, m *Mark) Metadata {
	says := Metadata{Topic: cmp.Or(fingerprint(topicID), i.Topic), Epoch: epoch, Mark: m}
	if len(i.Spans) > 0 {
		says.Epoch = max(epoch, i.Epoch)
	}
	return says
}

// past is where to commit when everything before next is settled: where a span goes on there, its
// end. The commit's epoch is the highest that the owner before had read, so that the next owner's
// client sees where the log was cut meanwhile, and what it would pass over are other records.
func (i *inherited) past(next Position) Position {
	if len(i.Spans) > 0 && next.Offset >= i.Spans[0].First && next.Offset < i.Spans[0].End {
		return At(i.Spans[0].End, i.Epoch)
	}
	return next
}

// beyond yields what is known to be settled behind the first open record of a window, read or not.
func (i *inherited) beyond(w *window) iter.Seq[Span] {
	return func(yield func(Span) bool) {
		open, end := true, i.past(w.next).Offset
		w.Beyond(func(s Span) bool {
			if len(i.Spans) > 0 && s.End >= i.Spans[0].First {
				s.End = max(s.End, i.Spans[0].End) // the read part of one that goes on
			}
			end = s.End
			open = yield(s)
			return open
		})
		for _, s := range i.Spans {
			if open && s.First > end {
				open = yield(s)
			}
		}
	}
}
