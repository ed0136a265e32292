package streams

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"strings"
)

// span are offsets from first to before end.
type span struct{ first, end int64 }

// A commit says how far everything is settled. Its metadata says what is settled beyond that, so that the next owner does not run it again:
// beyondMark, then in base64 (the broker takes only UTF-8) unsigned varints, by turns how many offsets are not settled and how
// many are, from the committed one on. Before them stands the highest leader epoch of what was read, plus one: where records of a higher one
// are met, the log was cut meanwhile, and what was settled there was others. With crashMark at its beginning there is a mark before all that.
const (
	beyondMark = "stepwell/1 "
	crashMark  = "stepwell/2 "
	// beyondLimit is how long metadata may be: a broker takes 4096 bytes unless offset.metadata.max.bytes says otherwise.
	beyondLimit = 4096
)

// writeBeyond is the metadata of a commit at offset, when records up to that epoch were read; of spans, which are ascending and do not touch, those that fit into limit bytes. Without a
// mark and without spans it is empty.
func writeBeyond(offset int64, epoch int32, m *lifeMark, spans func(yield func(span) bool), limit int) string {
	room := base64.RawStdEncoding.DecodedLen(max(0, limit-len(beyondMark)))
	var raw []byte
	first := beyondMark
	if m != nil {
		first, raw = crashMark, appendMark(nil, offset, *m)
	}
	marked := len(raw)
	raw = binary.AppendUvarint(raw, uint64(epoch+1))
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
	if len(raw) == bare {
		raw = raw[:marked] // an epoch of nothing
	}
	if len(raw) == 0 {
		return ""
	}
	return first + base64.RawStdEncoding.EncodeToString(raw)
}

// readBeyond returns what is settled beyond a commit at offset, up to which leader epoch that holds, and the mark. Metadata that is not ours
// says nothing.
func readBeyond(offset int64, metadata string) ([]span, int32, lifeMark) {
	text, marked := strings.CutPrefix(metadata, crashMark)
	ours := marked
	if !marked {
		text, ours = strings.CutPrefix(metadata, beyondMark)
	}
	raw, err := base64.RawStdEncoding.DecodeString(text)
	if !ours || err != nil || offset < 0 || offset > 1<<62 {
		return nil, -1, noMark()
	}
	m := noMark()
	if marked {
		var ok bool
		if m, raw, ok = cutMark(offset, raw); !ok {
			return nil, -1, noMark()
		}
	}
	if len(raw) == 0 {
		return nil, -1, m
	}
	epoch, n := binary.Uvarint(raw)
	if n <= 0 || epoch > math.MaxInt32 {
		return nil, -1, noMark()
	}
	spans, ok := readSpans(offset, raw[n:])
	if !ok {
		return nil, -1, noMark()
	}
	return spans, int32(epoch) - 1, m
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

// restored notes what the commit from which we begin said of the offsets beyond it.
func (p *partition) restored(offset int64, metadata string) {
	spans, epoch, m := readBeyond(offset, metadata)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.beyond, p.beyondEpoch = spans, epoch
	if !p.crash.guard.begun {
		p.crash.guard = takeOver(m, offset, p.r.rules())
	}
}

// wasSettled says whether the owner before us settled the record of this offset and leader epoch. It is asked in ascending order, in which epochs
// never fall.
func (p *partition) wasSettled(offset int64, epoch int32) bool {
	if epoch > p.beyondEpoch {
		p.beyond = nil // the log was cut since, and these are other records
	}
	for len(p.beyond) > 0 && offset >= p.beyond[0].end {
		p.beyond = p.beyond[1:]
	}
	return len(p.beyond) > 0 && offset >= p.beyond[0].first
}

// allBeyond is what is known to be settled behind the first unsettled record, read or not.
func (p *partition) allBeyond(yield func(span) bool) {
	open, end := true, int64(0)
	p.window.Beyond(func(s span) bool {
		if len(p.beyond) > 0 && s.end >= p.beyond[0].first {
			s.end = max(s.end, p.beyond[0].end) // the read part of one that goes on
		}
		end = s.end
		open = yield(s)
		return open
	})
	for _, s := range p.beyond {
		s.first = max(s.first, p.window.next.offset+1) // the commit is in the middle of one that was read in part; a gap is never 0
		if open && s.first > end && s.first < s.end {
			open = yield(s)
		}
	}
}

// spanEpoch is the leader epoch of allBeyond. What is left of beyond is of no lower one than what was read: else it was dropped.
func (p *partition) spanEpoch() int32 {
	if len(p.beyond) > 0 {
		return max(p.epoch, p.beyondEpoch)
	}
	return p.epoch
}
