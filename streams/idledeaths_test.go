package streams

import (
	"slices"
	"testing"
	"time"

	"github.com/stepwell/stepwell/internal/ledger"
	"github.com/stepwell/stepwell/internal/solo"
)

// Crash loops count deaths in all partitions, of which most may be idle. Another one is read
// meanwhile, so that nothing else asks where logs end.
func TestDeathsOfWhoHadNothingOfAPartitionAreForgottenBeforeItsNextRecordComes(t *testing.T) {
	t.Parallel()
	w := fakeWorld(t, 2)
	mark := ledger.NoMark()
	mark.Owner, mark.HandedOut, mark.Deaths, mark.SuspectsEnd = 99, 16, 3, 1
	w.commitWith(0, 0, ledger.WriteMetadata(0, ledger.Metadata{Epoch: -1, Mark: &mark}, slices.Values([]ledger.Span{}), ledger.MetadataLimit))
	w.produce(1, 100)
	j := newJournal()
	cfg := w.guarded(&solo.Token{})
	var log logbook
	cfg.Logger = log.logger()
	w.run(cfg, j.settleAll)
	within(t, idleAfter-time.Second, "the broker knows of no deaths", func() bool {
		w.produce(1, 1)
		m := ledger.ReadMetadata(0, w.metadata()).Mark
		return m != nil && m.Owner != 99 && m.Deaths == 0
	})
	w.produce(0, 1)
	eventually(t, "the record that came is handled", func() bool { return len(j.of(0)) == 1 })
	if log.count("suspected") > 0 {
		t.Errorf("it is suspected:\n%s", &log.text)
	}
}
