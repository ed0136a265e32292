package streams

import (
	"encoding/binary"
	"math"
	"slices"
)

// noMark is what is assumed where a commit says nothing: that nobody died.
func noMark() lifeMark { return lifeMark{lone: -1} }

// markOf is the mark that a commit has.
func markOf(t told) lifeMark {
	if t.mark == nil {
		return noMark()
	}
	return *t.mark
}

// appendMark appends a mark as unsigned varints. Offsets are counted from the committed one.
func appendMark(raw []byte, offset int64, m lifeMark) []byte {
	running := uint64(0)
	if m.running {
		running = 1
	}
	for _, n := range []uint64{
		uint64(m.life), uint64(max(0, m.handed-offset)), uint64(m.deaths), uint64(max(0, m.suspect-offset)),
		uint64(max(0, m.lone-offset+1)), uint64(m.died), running,
	} {
		raw = binary.AppendUvarint(raw, n)
	}
	return raw
}

// cutMark reads what appendMark wrote, and returns what follows.
func cutMark(offset int64, raw []byte) (m lifeMark, rest []byte, ok bool) {
	var all [7]uint64
	if raw, ok = cutNumbers(raw, all[:]); !ok || slices.Max(all[:]) > farthest {
		return noMark(), nil, false
	}
	if all[0] > math.MaxUint32 || all[6] > 1 {
		return noMark(), nil, false
	}
	m = lifeMark{
		life: uint32(all[0]), handed: offset + int64(all[1]), deaths: int(all[2]), suspect: offset + int64(all[3]),
		lone: offset + int64(all[4]) - 1, died: int(all[5]), running: all[6] == 1,
	}
	if m.deaths == 0 {
		m.suspect = 0
	}
	if all[4] == 0 {
		m.lone, m.died, m.running = -1, 0, false
	}
	return m, raw, true
}
