package ledger

import (
	"encoding/binary"
	"math"
	"slices"
)

// Mark is what a commit says of the partition's owner and of owners before it that died. An owner
// is a process, named by a number that no other process has.
type Mark struct {
	Owner     uint32 // of the partition; 0: it parted with the partition in good order
	Ended     int64  // every call for a record before this offset has ended
	HandedOut int64  // all records that were handed out lie before this offset, as far as was known
	Deaths    int    // how many owners died in a row while records before SuspectsEnd were open

	// SuspectsFrom and SuspectsEnd are the first suspect and the offset after the last one.
	SuspectsFrom, SuspectsEnd int64

	Alone     int64    // the suspect that runs, or is about to, and no other; -1: none
	Accused   int64    // the suspect that was Alone when an owner died; -1: none
	Died      []uint32 // the owners that died then
	Condemned int      // how many records were condemned in a row
}

// NoMark is what is assumed where a commit says nothing: that nobody died.
func NoMark() Mark { return Mark{Alone: -1, Accused: -1} }

// mostDied is how many deaths a mark can name.
const mostDied = 128

// size is how many bytes of metadata the mark may need.
func (m Mark) size() int { return 96 + 7*len(m.Died) }

// appendMark appends a mark as unsigned varints. Offsets are counted from the committed one.
func appendMark(raw []byte, offset int64, m Mark) []byte {
	for _, n := range []uint64{
		uint64(m.Owner), uint64(max(0, m.Ended-offset)), uint64(max(0, m.HandedOut-offset)), uint64(m.Deaths),
		uint64(max(0, m.SuspectsFrom-offset)), uint64(max(0, m.SuspectsEnd-offset)),
		uint64(max(0, m.Alone-offset+1)), uint64(max(0, m.Accused-offset+1)), uint64(m.Condemned), uint64(len(m.Died)),
	} {
		raw = binary.AppendUvarint(raw, n)
	}
	for _, owner := range m.Died {
		raw = binary.AppendUvarint(raw, uint64(owner))
	}
	return raw
}

// cutMark reads what appendMark wrote, and returns what follows.
func cutMark(offset int64, raw []byte) (m Mark, rest []byte, ok bool) {
	var all [10]uint64
	if raw, ok = cutNumbers(raw, all[:]); !ok || slices.Max(all[:]) > farthest || all[0] > math.MaxUint32 || all[9] > mostDied {
		return NoMark(), nil, false
	}
	died := make([]uint64, all[9])
	if raw, ok = cutNumbers(raw, died); !ok || len(died) > 0 && slices.Max(died) > math.MaxUint32 {
		return NoMark(), nil, false
	}
	m = Mark{
		Owner: uint32(all[0]), Ended: offset + int64(all[1]), HandedOut: offset + int64(all[2]), Deaths: int(all[3]),
		SuspectsFrom: offset + int64(all[4]), SuspectsEnd: offset + int64(all[5]),
		Alone: offsetOr(offset, all[6]), Accused: offsetOr(offset, all[7]), Condemned: int(all[8]),
	}
	for _, owner := range died {
		m.Died = append(m.Died, uint32(owner))
	}
	if m.Deaths == 0 {
		m.SuspectsFrom, m.SuspectsEnd = 0, 0
	}
	if m.Accused < 0 {
		m.Died = nil
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
