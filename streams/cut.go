package streams

import (
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell/internal/ledger"
)

// A log is cut when its partition gets a leader that has not all of it (an unclean election), and
// when its brokers lose what was not on their disks. The same offsets are other records then. The
// partition is treated like one that was lost and came back: calls of it are cancelled, what they
// settled is committed no more, and it is read from the first record on that was not settled, or
// from the cut.

// cut looks at the error of a client that found a log cut, and notes in cuts which partition is to
// begin anew. A cut is seen by the group's member, too, when it is given a partition that another
// fetcher reads; what counts is where that one goes on.
func (in *intake) cut(from *fetcher, tp topicPartition, e *kgo.ErrDataLoss, cuts map[*partition]ledger.Position) {
	if !in.parts.isReadBy(tp, from) {
		return
	}
	p := in.parts.lookup(tp)
	expected := p.position()
	p.goOn(e.ResetTo)
	switch {
	case e.ResetTo > expected && expected >= 0:
		in.lost(tp, expected, e.ResetTo-expected)
	case e.ResetTo < expected:
		cuts[p] = ledger.At(e.ResetTo, e.ResetToEpoch)
	}
}

// isOfCut says that records are not to be taken, since they come from a log that was cut: they are
// read again when the partition begins anew. Clients that cannot know of the cut go on behind it;
// records that were read before tell of it.
func (in *intake) isOfCut(tp topicPartition, f *kgo.FetchPartition, cuts map[*partition]ledger.Position) bool {
	p := in.parts.lookup(tp)
	if first, expected := f.Records[0].Offset, p.position(); first < expected {
		if _, known := cuts[p]; !known {
			cuts[p] = ledger.At(first, -1)
		}
	}
	_, cut := cuts[p]
	return cut
}

// beginAnew replaces a partition whose log was cut. Only within gate.poll.
func (in *intake) beginAnew(p *partition, cut ledger.Position) {
	at := p.goesOnAt(cut)
	in.log.Error("the log of a partition was cut: what is read from there replaces records that were read before",
		"topic", p.topic, "partition", p.partition, "read_to", p.position(), "cut_at", cut.Offset, "goes_on_at", at.Offset)
	in.parts.replace(p, at)
	p.fetcher.seek(p.topicPartition, at)
}
