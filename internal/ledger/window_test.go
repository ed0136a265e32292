package ledger

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// modelWindow is a window as one would explain it: a list, looked through from the start each time.
type modelWindow struct {
	next    int64
	records []modelRecord
}

type modelRecord struct {
	offset  int64
	bytes   int
	settled bool
}

func (m *modelWindow) settle(first, last int64) {
	for i := range m.records {
		if r := &m.records[i]; r.offset >= first && r.offset <= last {
			r.settled = true
		}
	}
	for len(m.records) > 0 && m.records[0].settled {
		m.next = m.records[0].offset + 1
		m.records = m.records[1:]
	}
}

func (m *modelWindow) bytes() (n int) {
	for _, r := range m.records {
		if !r.settled {
			n += r.bytes
		}
	}
	return n
}

func (m *modelWindow) unsettled() (n int) {
	for _, r := range m.records {
		if !r.settled {
			n++
		}
	}
	return n
}

func (m *modelWindow) open() (offsets []int64) {
	for _, r := range m.records {
		if !r.settled {
			offsets = append(offsets, r.offset)
		}
	}
	return offsets
}

func (m *modelWindow) beyond() (spans []Span) {
	for i, r := range m.records {
		switch {
		case !r.settled:
		case m.records[i-1].settled: // the first of all is open
			spans[len(spans)-1].End = r.offset + 1
		default:
			spans = append(spans, Span{First: r.offset, End: r.offset + 1})
		}
	}
	return spans
}

func TestWindowCommitsOnlyWhatASimpleListWouldCommit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := rapid.Int64Range(0, 1000).Draw(t, "start")
		w := newWindow(Position{start, -1})
		m := &modelWindow{next: start}
		top := start
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				for range rapid.IntRange(1, 100).Draw(t, "n") {
					top += rapid.SampledFrom([]int64{0, 0, 0, 0, 1, 2, 50}).Draw(t, "gap")
					bytes := rapid.IntRange(0, 10).Draw(t, "bytes")
					w.Reserve(1)
					w.Add(top, int32(top/10), bytes)
					m.records = append(m.records, modelRecord{offset: top, bytes: bytes})
					top++
				}
			},
			"shrink": func(*rapid.T) { w.shrink() },
			"settle one": func(t *rapid.T) {
				o := rapid.Int64Range(start-2, top+2).Draw(t, "offset")
				before := Freed{w.Unsettled(), w.Bytes(), w.Len()}
				f := w.SettleRange(o, o)
				if left := (Freed{before.Records - f.Records, before.Bytes - f.Bytes, before.Span - f.Span}); left != (Freed{w.Unsettled(), w.Bytes(), w.Len()}) {
					t.Fatalf("settle %d says it freed %v of %v, but %d %d %d are left", o, f, before, w.Unsettled(), w.Bytes(), w.Len())
				}
				m.settle(o, o)
			},
			"settle a run": func(t *rapid.T) {
				first := rapid.Int64Range(start-2, top+2).Draw(t, "first")
				last := first + rapid.Int64Range(-1, 40).Draw(t, "length")
				w.SettleRange(first, last)
				m.settle(first, last)
			},
			"": func(t *rapid.T) {
				next, ok := w.Committable()
				if !ok || next.Offset != m.next {
					t.Fatalf("committable %v %v, want %d", next, ok, m.next)
				}
				if m.next > start && next.Epoch != int32((m.next-1)/10) {
					t.Fatalf("epoch %d of offset %d", next.Epoch, next.Offset)
				}
				if w.Len() != len(m.records) || w.Bytes() != m.bytes() || w.Unsettled() != m.unsettled() {
					t.Fatalf("len %d bytes %d unsettled %d, want %d, %d and %d", w.Len(), w.Bytes(), w.Unsettled(), len(m.records), m.bytes(), m.unsettled())
				}
				if first, ok := w.First(); ok != (len(m.records) > 0) || ok && first != m.records[0].offset {
					t.Fatalf("first %d %v", first, ok)
				}
				o := rapid.Int64Range(start-2, top+2).Draw(t, "asked")
				i := slices.IndexFunc(m.records, func(r modelRecord) bool { return r.offset == o })
				want := o < m.next || i >= 0 && m.records[i].settled
				if inGap := o >= m.next && o < top && i < 0; !inGap && w.Settled(o) != want {
					t.Fatalf("settled(%d) is %v", o, !want)
				}
				if got, want := slices.Collect(w.Open), m.open(); !slices.Equal(got, want) {
					t.Fatalf("open are %v, want %v", got, want)
				}
				if got, want := slices.Collect(w.Beyond), m.beyond(); !slices.Equal(got, want) {
					t.Fatalf("settled beyond are %v, want %v", got, want)
				}
			},
		})
	})
}

func TestWindowWithoutABeginningCommitsNothingUntilItsFirstRecordIsSettled(t *testing.T) {
	w := newWindow(Position{-1, -1})
	w.Reserve(1)
	w.Add(40, 3, 1)
	w.Reserve(1)
	w.Add(41, 3, 1)
	w.SettleRange(41, 41)
	if at, ok := w.Committable(); ok {
		t.Fatalf("committable %v though 40 is not settled", at)
	}
	w.SettleRange(40, 40)
	if at, ok := w.Committable(); !ok || at != (Position{42, 3}) {
		t.Fatalf("committable %v %v", at, ok)
	}
}

func TestASlotStandsForNoMoreRecordsThanItCanCount(t *testing.T) {
	const many = math.MaxInt32 - 1
	w := newWindow(Position{0, -1})
	w.Reserve(8)
	for _, offset := range []int64{0, 1, many, many + 1, many + 2, 2 * many, 2*many + 1} {
		w.Add(offset, 0, 1)
	}
	w.SettleRange(1, 2*many)
	for i, stands := range map[int]int32{2: many - 1, 5: many - 2} { // for those between, too
		w.at(i).bytes = -stands
		w.records += int(stands) - 1
	}
	w.shrink()
	if f := w.SettleRange(0, 0); f.Span != 2*many+1 || w.Len() != 1 {
		t.Errorf("freed %d records, want %d, and %d are left", f.Span, 2*many+1, w.Len())
	}
}

func FuzzWindowNeverPassesAnUnsettledOffset(f *testing.F) {
	f.Add([]byte{1, 1, 2, 0, 3, 1})
	f.Fuzz(func(t *testing.T, ops []byte) {
		w := newWindow(Position{0, -1})
		unsettled := map[int64]bool{}
		var top int64
		for _, op := range ops {
			if arg := int64(op >> 1); op&1 == 0 {
				top += arg % 4
				w.Reserve(1)
				w.Add(top, 0, 1)
				unsettled[top] = true
				top++
			} else {
				w.SettleRange(arg, arg)
				delete(unsettled, arg)
			}
			next, _ := w.Committable()
			for o := range unsettled {
				if o < next.Offset {
					t.Fatalf("%d is committable, %d is not settled", next.Offset, o)
				}
			}
		}
	})
}

func TestWindowInSteadyUseAllocatesNothing(t *testing.T) {
	w := newWindow(Position{0, -1})
	var offset int64
	round := func() {
		from := offset
		for range 1000 {
			w.Reserve(1)
			w.Add(offset, 0, 100)
			offset++
		}
		w.SettleRange(from, offset-1)
	}
	round()
	if n := testing.AllocsPerRun(100, round); n > 0 {
		t.Fatalf("%v allocations", n)
	}
}

func BenchmarkWindow(b *testing.B) {
	w := newWindow(Position{0, -1})
	b.ReportAllocs()
	var offset int64
	for b.Loop() {
		from := offset
		for range 1000 {
			w.Reserve(1)
			w.Add(offset, 0, 100)
			offset++
		}
		w.SettleRange(from, offset-1)
	}
	b.ReportMetric(1000, "records/op")
}

// A key that fails rests for minutes, while all others go on.
func TestFewOpenRecordsKeepNoRoomForTheManySettledBehindThem(t *testing.T) {
	const inFlight = 7
	w := newWindow(Position{0, -1})
	for offset := range int64(1_000_000 + inFlight) {
		w.Reserve(1)
		w.Add(offset, 0, 100)
		if done := offset - inFlight; done >= 0 && done%100 != 0 {
			w.SettleRange(done, done)
		}
	}
	if w.Len() != 1_000_000+inFlight || w.Unsettled() != 10_000+inFlight {
		t.Fatalf("%d records, %d of them open", w.Len(), w.Unsettled())
	}
	if len(w.ring) > 65536 {
		t.Errorf("room for %d slots, where three for each open record are needed", len(w.ring))
	}
	if f := w.SettleRange(0, 999_999); f.Span != 1_000_000 || w.Len() != inFlight {
		t.Errorf("freed %v, and %d are left", f, w.Len())
	}
}
