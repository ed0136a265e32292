package streams

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"math"
	"strings"
)

// span are offsets from first to before end.
type span struct{ first, end int64 }

// told is what a commit's metadata says. A commit says how far everything is settled; told says what is settled beyond that, so that the next
// owner does not run it again, and has its predecessor's mark.
type told struct {
	// topic is a print of the topic's id; 0: not known. Of another topic, all this says nothing.
	topic uint32
	// epoch is the highest leader epoch of what was read; -1: none. Where records of a higher one are met, the log was cut meanwhile, and what
	// was settled there was others.
	epoch int32
	mark  *lifeMark // nil: there is none
	spans []span    // settled beyond the commit, ascending; they do not touch
}

// Metadata is ours if it begins with beyondMark. Then come, in base64 since the broker takes only UTF-8, unsigned varints: the committed offset,
// since tools that move a group's offset may leave its metadata as it was; the topic's print; 1 and a mark, or 0; the epoch plus one; and by turns
// how many offsets are not settled and how many are, from the committed one on.
const (
	beyondMark = "stepwell/2 "
	// beyondLimit is how long metadata may be: a broker takes 4096 bytes unless offset.metadata.max.bytes says otherwise.
	beyondLimit = 4096
)

// writeTold is the metadata of a commit at offset, with as many of spans as fit into limit bytes; t.spans is not looked at. Without a mark and
// without spans it is empty.
func writeTold(offset int64, t told, spans func(yield func(span) bool), limit int) string {
	room := base64.RawStdEncoding.DecodedLen(max(0, limit-len(beyondMark)))
	raw := binary.AppendUvarint(nil, uint64(offset))
	raw = binary.AppendUvarint(raw, uint64(t.topic))
	if t.mark != nil {
		raw = appendMark(append(raw, 1), offset, *t.mark)
	} else {
		raw = append(raw, 0)
	}
	raw = binary.AppendUvarint(raw, uint64(t.epoch+1))
	bare := len(raw)
	for s := range spans {
		n := len(raw)
		raw = binary.AppendUvarint(raw, uint64(s.first-offset))
		raw = binary.AppendUvarint(raw, uint64(s.end-s.first))
		offset = s.end
		if len(raw) > room {
			raw = raw[:n]
			break
		}
	}
	if t.mark == nil && len(raw) == bare {
		return ""
	}
	return beyondMark + base64.RawStdEncoding.EncodeToString(raw)
}

// readTold returns what the metadata of a commit at offset says. That which is not ours, or was written for another offset, says nothing.
func readTold(offset int64, metadata string) told {
	nothing := told{epoch: -1}
	text, ours := strings.CutPrefix(metadata, beyondMark)
	raw, err := base64.RawStdEncoding.DecodeString(text)
	if !ours || err != nil || offset < 0 || offset > 1<<62 {
		return nothing
	}
	var head [3]uint64
	if raw, ours = cutNumbers(raw, head[:]); !ours || head[0] != uint64(offset) || head[1] > math.MaxUint32 || head[2] > 1 {
		return nothing
	}
	t := told{topic: uint32(head[1])}
	if head[2] == 1 {
		var m lifeMark
		if m, raw, ours = cutMark(offset, raw); !ours {
			return nothing
		}
		t.mark = &m
	}
	var epoch [1]uint64
	if raw, ours = cutNumbers(raw, epoch[:]); !ours || epoch[0] > math.MaxInt32 {
		return nothing
	}
	t.epoch = int32(epoch[0]) - 1
	if t.spans, ours = readSpans(offset, raw); !ours {
		return nothing
	}
	return t
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

// printOf is a short name of a topic's id; 0 only where the broker gives none.
func printOf(topicID [16]byte) uint32 {
	if topicID == [16]byte{} {
		return 0
	}
	return max(1, crc32.ChecksumIEEE(topicID[:]))
}

// farthest is the most that two offsets of a log can be apart.
const farthest = 1 << 40

func readSpans(offset int64, raw []byte) (spans []span, ok bool) {
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
		s := span{first: offset + int64(gap)}
		s.end = s.first + int64(run)
		spans = append(spans, s)
		offset = s.end
	}
	return spans, true
}

// Beyond yields what is settled behind the first unsettled record, in ascending order. Offsets that have no record count like their
// neighbours.
func (w *window) Beyond(yield func(span) bool) {
	var s span
	for i := range w.count {
		slot := w.at(i)
		if slot.bytes == settledSlot {
			if s.end == 0 {
				s.first = slot.offset
			}
			s.end = slot.offset + 1
			continue
		}
		if s.end > 0 && !yield(s) {
			return
		}
		s = span{}
	}
	if s.end > 0 {
		yield(s)
	}
}

// restored notes what the commit from which we begin said.
func (p *partition) restored(offset int64, metadata string) {
	t := readTold(offset, metadata)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.told = t
	if !p.crash.guard.begun {
		p.crash.guard = takeOver(markOf(t), offset, p.r.rules())
	}
}

// isOf notes the topic. At the first records it is compared with the one that the commit from which we began was about: its metadata may have
// been copied from another cluster.
func (p *partition) isOf(topicID [16]byte) {
	first := p.topicID == [16]byte{}
	p.topicID = topicID
	if of := printOf(topicID); first && p.told.topic != 0 && of != 0 && p.told.topic != of {
		p.told = told{epoch: -1}
		p.crash.guard = takeOver(noMark(), p.start, p.r.rules())
	}
}

// wasSettled says whether the owner before us settled the record of this offset and leader epoch. It is asked in ascending order, in which epochs
// never fall.
func (p *partition) wasSettled(offset int64, epoch int32) bool {
	t := &p.told
	if epoch > t.epoch {
		t.spans = nil // the log was cut since, and these are other records
	}
	for len(t.spans) > 0 && offset >= t.spans[0].end {
		t.spans = t.spans[1:]
	}
	return len(t.spans) > 0 && offset >= t.spans[0].first
}

// allBeyond is what is known to be settled behind the first unsettled record, read or not.
func (p *partition) allBeyond(yield func(span) bool) {
	open, end := true, int64(0)
	p.window.Beyond(func(s span) bool {
		if len(p.told.spans) > 0 && s.end >= p.told.spans[0].first {
			s.end = max(s.end, p.told.spans[0].end) // the read part of one that goes on
		}
		end = s.end
		open = yield(s)
		return open
	})
	for _, s := range p.told.spans {
		s.first = max(s.first, p.window.next.offset+1) // the commit is in the middle of one that was read in part; a gap is never 0
		if open && s.first > end && s.first < s.end {
			open = yield(s)
		}
	}
}

// tell is what a commit now says beside its spans. Of those of the owner before us that are left none is of a lower epoch than what was read:
// else they were dropped.
func (p *partition) tell(m *lifeMark) told {
	t := told{topic: cmp.Or(printOf(p.topicID), p.told.topic), epoch: p.epoch, mark: m}
	if len(p.told.spans) > 0 {
		t.epoch = max(t.epoch, p.told.epoch)
	}
	return t
}
