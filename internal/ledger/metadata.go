package ledger

import (
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"iter"
	"math"
	"strings"
)

// Span is the offsets from First to before End.
type Span struct{ First, End int64 }

// Metadata is what a commit says beside its offset. The offset says up to where everything is
// settled; the metadata says what is settled beyond it, so that the next owner does not run that
// again, and has this owner's mark.
type Metadata struct {
	// Topic is the fingerprint of the topic's ID; 0: not known. Of another topic all this says
	// nothing.
	Topic uint32
	// Epoch is the highest leader epoch of the records that were read; -1: none. Where records of a
	// higher one are met the log was cut meanwhile, and what was settled there were other records.
	Epoch int32
	// Log is the number by which the log is told from others that had the same positions; 0: none.
	Log uint32
	// Mark says which owners died; nil: the commit has none.
	Mark *Mark
	// Spans are settled beyond the commit, in ascending order; they do not touch.
	Spans []Span
}

// noMetadata is what a commit without metadata of ours says.
func noMetadata() Metadata { return Metadata{Epoch: -1} }

// MarkOrNone is the mark, or the one that says that nobody died.
func (m Metadata) MarkOrNone() Mark {
	if m.Mark == nil {
		return NoMark()
	}
	return *m.Mark
}

// Metadata is ours if it begins with Prefix. Then come unsigned varints, in base64 since the broker
// takes only UTF-8: the committed offset, since tools that move a group's offset may leave its
// metadata as it was; the topic's fingerprint; what comes next, as the sum of hasMark and hasLog;
// the log's number and the mark, as far as there are any; the epoch plus one; and by turns how many
// offsets are open and how many are settled, from the committed one on.
const (
	Prefix = "stepwell/2 "
	// MetadataLimit is how long metadata may be: a broker takes 4096 bytes unless its
	// offset.metadata.max.bytes says otherwise.
	MetadataLimit = 4096

	hasMark = 1
	hasLog  = 2
)

// WriteMetadata is the text of a commit at offset, with as many of the spans as fit into limit
// bytes; m.Spans is not looked at. The log's number is left out where it does not fit. Without it,
// without a mark and without spans the text is empty.
func WriteMetadata(offset int64, m Metadata, spans iter.Seq[Span], limit int) string {
	room := base64.RawStdEncoding.DecodedLen(max(0, limit-len(Prefix)))
	raw := head(offset, m)
	if len(raw) > room && m.Log != 0 {
		m.Log = 0
		raw = head(offset, m)
	}
	bare := len(raw)
	for s := range spans {
		n := len(raw)
		raw = binary.AppendUvarint(raw, uint64(s.First-offset))
		raw = binary.AppendUvarint(raw, uint64(s.End-s.First))
		offset = s.End
		if len(raw) > room {
			raw = raw[:n]
			break
		}
	}
	if m.Mark == nil && m.Log == 0 && len(raw) == bare {
		return ""
	}
	return Prefix + base64.RawStdEncoding.EncodeToString(raw)
}

// head is what comes before the spans.
func head(offset int64, m Metadata) []byte {
	raw := binary.AppendUvarint(nil, uint64(offset))
	raw = binary.AppendUvarint(raw, uint64(m.Topic))
	at := len(raw)
	raw = append(raw, 0)
	if m.Log != 0 {
		raw[at] |= hasLog
		raw = binary.AppendUvarint(raw, uint64(m.Log))
	}
	if m.Mark != nil {
		raw[at] |= hasMark
		raw = appendMark(raw, offset, *m.Mark)
	}
	return binary.AppendUvarint(raw, uint64(m.Epoch+1))
}

// ReadMetadata returns what the text of a commit at offset says. Text that is not ours, or that was
// written for another offset, says nothing.
func ReadMetadata(offset int64, text string) Metadata {
	text, ours := strings.CutPrefix(text, Prefix)
	raw, err := base64.RawStdEncoding.DecodeString(text)
	if !ours || err != nil || offset < 0 || offset > 1<<62 {
		return noMetadata()
	}
	m, raw, ours := cutHead(offset, raw)
	if ours {
		m.Spans, ours = readSpans(offset, raw)
	}
	if !ours {
		return noMetadata()
	}
	return m
}

// cutHead reads what head wrote, and returns what follows.
func cutHead(offset int64, raw []byte) (m Metadata, rest []byte, ok bool) {
	var of [3]uint64
	if raw, ok = cutNumbers(raw, of[:]); !ok || of[0] != uint64(offset) || of[1] > math.MaxUint32 || of[2] > hasMark+hasLog {
		return m, nil, false
	}
	m.Topic = uint32(of[1])
	if of[2]&hasLog != 0 {
		var log [1]uint64
		if raw, ok = cutNumbers(raw, log[:]); !ok || log[0] == 0 || log[0] > math.MaxUint32 {
			return m, nil, false
		}
		m.Log = uint32(log[0])
	}
	if of[2]&hasMark != 0 {
		var mark Mark
		if mark, raw, ok = cutMark(offset, raw); !ok {
			return m, nil, false
		}
		m.Mark = &mark
	}
	var epoch [1]uint64
	if raw, ok = cutNumbers(raw, epoch[:]); !ok || epoch[0] > math.MaxInt32 {
		return m, nil, false
	}
	m.Epoch = int32(epoch[0]) - 1
	return m, raw, true
}

// cutNumbers reads unsigned varints and returns what follows.
func cutNumbers(raw []byte, into []uint64) (rest []byte, ok bool) {
	for i := range into {
		n, size := binary.Uvarint(raw)
		if size <= 0 {
			return nil, false
		}
		into[i], raw = n, raw[size:]
	}
	return raw, true
}

// fingerprint is a short name of a topic's ID; 0 only where the broker gives no ID.
func fingerprint(topicID [16]byte) uint32 {
	if topicID == [16]byte{} {
		return 0
	}
	return max(1, crc32.ChecksumIEEE(topicID[:]))
}

// farthest is the most that two offsets of a log can be apart.
const farthest = 1 << 40

func readSpans(offset int64, raw []byte) (spans []Span, ok bool) {
	for len(raw) > 0 {
		gap, n := binary.Uvarint(raw)
		if n <= 0 {
			return nil, false
		}
		run, m := binary.Uvarint(raw[n:])
		raw = raw[max(0, n+max(m, 0)):]
		if m <= 0 || gap == 0 || run == 0 || gap > farthest || run > farthest || offset > 1<<62 {
			return nil, false
		}
		s := Span{First: offset + int64(gap)}
		s.End = s.First + int64(run)
		spans = append(spans, s)
		offset = s.End
	}
	return spans, true
}
