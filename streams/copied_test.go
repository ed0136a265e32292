package streams

import (
	"slices"
	"testing"

	"github.com/stepwell/stepwell/internal/ledger"
)

func TestDeathsOfWhichMetadataOfAnotherTopicTellsAreNotBelieved(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, 1)
	w.produce(0, 10)
	m := ledger.Mark{Owner: 74, HandedOut: 10, Deaths: 3, SuspectsEnd: 10, Alone: 4, Accused: 4, Died: []uint32{71, 72, 73}}
	w.commitWith(0, 0, ledger.WriteMetadata(0, ledger.Metadata{Topic: 1, Mark: &m}, slices.Values([]ledger.Span(nil)), 4096))
	d := newDeadly(w)
	d.start(0)
	eventually(t, "all is done", func() bool { return d.done() == 10 })
	if condemned, _ := d.fate(""); len(condemned) > 0 {
		t.Errorf("condemned %v", condemned)
	}
}
