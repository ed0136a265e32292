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
		said := Metadata{
			Topic: rapid.Uint32().Draw(t, "topic"), Epoch: rapid.Int32Range(-1, 1<<30).Draw(t, "epoch"),
			Log: rapid.OneOf(rapid.Just(uint32(0)), rapid.Uint32()).Draw(t, "log"),
		}
		text := WriteMetadata(offset, said, slices.Values(spans), limit)
		if len(text) > limit {
			t.Fatalf("%d bytes, %d are the limit", len(text), limit)
		}
		read := ReadMetadata(offset, text)
		got := read.Spans
		if (len(got) > 0 || said.Log != 0) && (read.Epoch != said.Epoch || read.Topic != said.Topic || read.Log != said.Log || read.Mark != nil) {
			t.Fatalf("%+v, want %+v", read, said)
		}
		elsewhere := offset + rapid.Int64Range(-offset, 1<<40).Filter(func(n int64) bool { return n != 0 }).Draw(t, "moved")
		if moved := ReadMetadata(elsewhere, text); len(moved.Spans) > 0 || moved.Mark != nil || moved.Log != 0 {
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

func TestALogsNumberAndAMarkAreReadAsTheyWereWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		offset := rapid.Int64Range(0, 1<<40).Draw(t, "offset")
		said := Metadata{Topic: rapid.Uint32().Draw(t, "topic"), Epoch: rapid.Int32Range(-1, 1<<30).Draw(t, "epoch"), Log: rapid.Uint32().Draw(t, "log")}
		if rapid.Bool().Draw(t, "with a mark") {
			said.Mark = &Mark{Owner: rapid.Uint32().Draw(t, "owner"), Ended: offset, HandedOut: offset + 5, Alone: -1, Accused: -1}
		}
		text := WriteMetadata(offset, said, slices.Values([]Span(nil)), MetadataLimit)
		if said.Log == 0 && said.Mark == nil {
			if text != "" {
				t.Fatalf("%q, and there is nothing to be said", text)
			}
			return
		}
		if read := ReadMetadata(offset, text); !reflect.DeepEqual(read, said) {
			t.Fatalf("%+v, want %+v", read, said)
		}
	})
}

func TestALogsNumberIsLeftOutWhereABrokerTakesTooLittle(t *testing.T) {
	said := Metadata{Topic: 1 << 31, Epoch: 9, Log: 1 << 31}
	spans := slices.Values([]Span{{1002, 1003}})
	whole := WriteMetadata(1000, said, slices.Values([]Span(nil)), MetadataLimit)
	for limit := range len(whole) + 10 {
		text := WriteMetadata(1000, said, spans, limit)
		read := ReadMetadata(1000, text)
		if len(text) > limit || (read.Log != 0) != (limit >= len(whole)) || (text == "") != (read.Log == 0 && len(read.Spans) == 0) {
			t.Errorf("%d bytes are taken: %q says %+v", limit, text, read)
		}
	}
}

// A number takes no more than two of 1,500 gaps.
func TestALogsNumberLeavesTheRoomToWhatIsSettled(t *testing.T) {
	fit := func(log uint32) int {
		said := Metadata{Topic: 1 << 31, Epoch: 9, Log: log}
		return len(ReadMetadata(1<<30, WriteMetadata(1<<30, said, func(yield func(Span) bool) {
			for at := int64(1<<30 + 1); yield(Span{at, at + 1}); at += 2 {
			}
		}, MetadataLimit)).Spans)
	}
	if without, with := fit(0), fit(1<<31); without < 1500 || without-with > 3 {
		t.Errorf("%d spans fit with a number, %d without", with, without)
	}
}

func FuzzMetadataOfOthersSaysNothingWrong(f *testing.F) {
	f.Add(int64(5), "")
	f.Add(int64(5), "consumer-1-uuid")
	f.Add(int64(5), Prefix+"AQI")
	f.Add(int64(1)<<62, Prefix+"//////////8B")
	f.Add(int64(5), Prefix+"BQABBwoDFAECAQAB")
	f.Add(int64(5), textOf(5, 7, 2, 99, 2, 2, 2))
	f.Add(int64(5), textOf(5, 7, 3, 99, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 2))
	f.Fuzz(func(t *testing.T, offset int64, text string) {
		last := offset
		said := ReadMetadata(offset, text)
		spans, m := said.Spans, said.MarkOrNone()
		if !reflect.DeepEqual(m, NoMark()) && !reflect.DeepEqual(readMark(offset, appendMark(nil, offset, m)), m) {
			t.Fatalf("the mark %+v is not one that is written", m)
		}
		if text != "" && said.Log != 0 {
			if again := ReadMetadata(offset, WriteMetadata(offset, said, slices.Values(spans), len(text)+MetadataLimit)); again.Log != said.Log || again.Topic != said.Topic {
				t.Fatalf("%+v, and %+v once it is written again", said, again)
			}
		}
		for _, s := range spans {
			if s.First <= last || s.End <= s.First {
				t.Fatalf("%v after %d", s, last)
			}
			last = s.End
		}
	})
}
