package ledger

import (
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestMetadataSaysWhatIsSettledBeyondTheCommitAsFarAsItFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		offset := rapid.Int64Range(0, 1<<40).Draw(t, "offset")
		var spans []Span
		at := offset
		for range rapid.IntRange(0, 3000).Draw(t, "spans") {
			first := at + rapid.Int64Range(1, 300).Draw(t, "gap")
			at = first + rapid.Int64Range(1, 300).Draw(t, "run")
			spans = append(spans, Span{first, at})
		}
		limit := rapid.IntRange(64, MetadataLimit).Draw(t, "limit")
		said := Metadata{Topic: rapid.Uint32().Draw(t, "topic"), Epoch: rapid.Int32Range(-1, 1<<30).Draw(t, "epoch")}
		text := WriteMetadata(offset, said, slices.Values(spans), limit)
		if len(text) > limit {
			t.Fatalf("%d bytes, %d are the limit", len(text), limit)
		}
		read := ReadMetadata(offset, text)
		got := read.Spans
		if len(got) > 0 && (read.Epoch != said.Epoch || read.Topic != said.Topic || read.Mark != nil) {
			t.Fatalf("%+v, want %+v", read, said)
		}
		elsewhere := offset + rapid.Int64Range(-offset, 1<<40).Filter(func(n int64) bool { return n != 0 }).Draw(t, "moved")
		if moved := ReadMetadata(elsewhere, text); len(moved.Spans) > 0 || moved.Mark != nil {
			t.Fatalf("at another offset it says %+v", moved)
		}
		if len(got) > len(spans) || !slices.Equal(got, spans[:len(got)]) {
			t.Fatalf("read %v of %v", got, spans)
		}
		if len(got) < len(spans) && len(text) < limit-20 {
			t.Fatalf("only %d of %d in %d bytes", len(got), len(spans), len(text))
		}
	})
}

func FuzzMetadataOfOthersSaysNothingWrong(f *testing.F) {
	f.Add(int64(5), "")
	f.Add(int64(5), "consumer-1-uuid")
	f.Add(int64(5), Prefix+"AQI")
	f.Add(int64(1)<<62, Prefix+"//////////8B")
	f.Add(int64(5), Prefix+"BQABBwoDFAECAQAB")
	f.Fuzz(func(t *testing.T, offset int64, text string) {
		last := offset
		said := ReadMetadata(offset, text)
		spans, m := said.Spans, said.MarkOrNone()
		if !reflect.DeepEqual(m, NoMark()) && !reflect.DeepEqual(readMark(offset, appendMark(nil, offset, m)), m) {
			t.Fatalf("the mark %+v is not one that is written", m)
		}
		for _, s := range spans {
			if s.First <= last || s.End <= s.First {
				t.Fatalf("%v after %d", s, last)
			}
			last = s.End
		}
	})
}
