package streams

import (
	"encoding/binary"
	"math"
	"slices"
)

// noMark is what is assumed where a commit says nothing: that nobody died.
func noMark() lifeMark { return lifeMark{lone: -1, accused: -1} }

// markOf is the mark that a commit has.
func markOf(t told) lifeMark {
	if t.mark == nil {
		return noMark()
	}
	return *t.mark
}

// mostDied is how many deaths a mark can name.
const mostDied = 128

// appendMark appends a mark as unsigned varints. Offsets are counted from the committed one.
func appendMark(raw []byte, offset int64, m lifeMark) []byte {
	for _, n := range []uint64{
		uint64(m.life), uint64(max(0, m.open-offset)), uint64(max(0, m.handed-offset)), uint64(m.deaths), uint64(max(0, m.from-offset)), uint64(max(0, m.suspect-offset)),
		uint64(max(0, m.lone-offset+1)), uint64(max(0, m.accused-offset+1)), uint64(m.row), uint64(len(m.died)),
	} {
		raw = binary.AppendUvarint(raw, n)
	}
	for _, life := range m.died {
		raw = binary.AppendUvarint(raw, uint64(life))
	}
	return raw
}

// cutMark reads what appendMark wrote, and returns what follows.
func cutMark(offset int64, raw []byte) (m lifeMark, rest []byte, ok bool) {
	var all [10]uint64
	if raw, ok = cutNumbers(raw, all[:]); !ok || slices.Max(all[:]) > farthest || all[0] > math.MaxUint32 || all[9] > mostDied {
		return noMark(), nil, false
	}
	died := make([]uint64, all[9])
	if raw, ok = cutNumbers(raw, died); !ok || len(died) > 0 && slices.Max(died) > math.MaxUint32 {
		return noMark(), nil, false
	}
	m = lifeMark{
		life: uint32(all[0]), open: offset + int64(all[1]), handed: offset + int64(all[2]), deaths: int(all[3]),
		from: offset + int64(all[4]), suspect: offset + int64(all[5]),
		lone: offsetOr(offset, all[6]), accused: offsetOr(offset, all[7]), row: int(all[8]),
	}
	for _, life := range died {
		m.died = append(m.died, uint32(life))
	}
	if m.deaths == 0 {
		m.from, m.suspect = 0, 0
	}
	if m.accused < 0 {
		m.died = nil
	}
	return m, raw, true
}

// offsetOr is the n-th offset from one on, counted from 1; -1 where n is 0.
func offsetOr(from int64, n uint64) int64 {
	if n == 0 {
		return -1
	}
	return from + int64(n) - 1
}
