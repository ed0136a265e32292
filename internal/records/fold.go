package records

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/stepwell/stepwell/internal/queue"
)

// entry is what the log has of a record. Fields are never renamed: processes of several releases
// read one log.
type entry struct {
	Kind string `json:"kind"` // empty: it only marks a place
	Name string `json:"name,omitempty"`
	// Seen is the offset up to which the writer had read, -1 for nothing. The entry counts unless
	// something of that name came after that.
	Seen int64 `json:"seen"`
	// Until is when the record is out of date, in Unix seconds; 0: never.
	Until int64           `json:"until,omitempty"`
	Value json.RawMessage `json:"value,omitempty"`
}

const (
	// mostBehind is how many entries may come between what a writer had read and its own: with more
	// it does not count. So what is gone needs to be remembered for no longer.
	mostBehind = 1000
	// oldAt is after how many bytes of others a record is written again. Between that and the size
	// at which the log drops it there is room for all that can be on its way.
	oldAt = queue.LogSize / 4
	// perEntry is what the log needs for an entry beside its body, about.
	perEntry = 256
	// mostBytes is how much all records may have together: less than what is written until they are
	// written again.
	mostBytes = oldAt / 2
	// mostOfApps is how much all may have together where one is the app's own: it cannot take what
	// operations and pauses need.
	mostOfApps = mostBytes / 4 * 3
)

// Reserved says that no app may have values of the kind.
func Reserved(kind string) bool { return strings.HasPrefix(kind, "stepwell") }

// room is how much all records may have together with another one of the kind.
func room(kind string) int64 {
	if Reserved(kind) {
		return mostBytes
	}
	return mostOfApps
}

// fold is what a log comes to. It is the same for all who read the log, wherever they began: it
// knows no clock.
type fold struct {
	// first is the offset of the first entry that was read, and next that of the one that comes
	// next; both 0 before.
	first, next int64
	// bytes is how much was read; oldest is not beyond the place of any record that counts.
	bytes, oldest int64
	kinds         map[string]map[string]*held
	// size is how many bytes the log needs for what is held.
	size int64
	// gone are the records without a value, oldest first, to be forgotten.
	gone []*held
}

// held is what a fold has of a name: also one that is gone, for as long as an entry may come whose
// writer had not seen that.
type held struct {
	Record
	offset int64 // of the entry
	place  int64 // fold.bytes when it came
	size   int64
}

// counts says that there is such a record. h may be nil.
func (h *held) counts(now time.Time) bool {
	return h != nil && h.Value != nil && (h.Until.IsZero() || now.Before(h.Until))
}

func newFold() *fold { return &fold{kinds: map[string]map[string]*held{}} }

// apply takes the entry at the offset in, of so many bytes, and reports whether it counts.
func (f *fold) apply(offset int64, size int, e *entry) bool {
	if f.next == 0 {
		f.first = offset
	}
	f.next = offset + 1
	size += perEntry
	f.bytes += int64(size)
	f.forget()
	if e.Kind == "" {
		return true
	}
	old := f.kinds[e.Kind][e.Name]
	switch {
	case offset-e.Seen > mostBehind:
		return false
	// Of what its writer had not read some is dropped, and nobody can tell any more whether that
	// changed the record. If this entry counted, it has been written again further on.
	case e.Seen < f.first-1:
		return false
	case old != nil && old.offset > e.Seen:
		return false
	}
	h := &held{Record: Record{Kind: e.Kind, Name: e.Name, Value: e.Value}, offset: offset, place: f.bytes, size: int64(size)}
	if e.Until > 0 {
		h.Until = time.Unix(e.Until, 0)
	}
	if f.kinds[e.Kind] == nil {
		f.kinds[e.Kind] = map[string]*held{}
	}
	f.drop(old)
	f.kinds[e.Kind][e.Name] = h
	f.size += h.size
	if h.Value == nil {
		f.gone = append(f.gone, h)
	}
	return true
}

// forget drops what was gone before anything that an entry to come may not have seen.
func (f *fold) forget() {
	for len(f.gone) > 0 && f.next-f.gone[0].offset > mostBehind {
		h := f.gone[0]
		f.gone = f.gone[1:]
		if f.kinds[h.Kind][h.Name] == h {
			f.drop(h)
		}
	}
}

// drop takes out what is held, if there is something.
func (f *fold) drop(h *held) {
	if h != nil {
		delete(f.kinds[h.Kind], h.Name)
		f.size -= h.size
	}
}

// old are the records that have to be written again before the log drops them. Those that are out
// of date are not.
func (f *fold) old(now time.Time) (all []*held) {
	if f.bytes-f.oldest < oldAt {
		return nil
	}
	f.expire(now)
	f.oldest = f.bytes
	for _, names := range f.kinds {
		for _, h := range names {
			if !h.counts(now) {
				continue
			}
			f.oldest = min(f.oldest, h.place)
			if f.bytes-h.place >= oldAt/2 { // half: so that the next look has a while
				all = append(all, h)
			}
		}
	}
	return all
}

// expire forgets what is out of date.
func (f *fold) expire(now time.Time) {
	for _, names := range f.kinds {
		for _, h := range names {
			if h.Value != nil && !h.counts(now) && f.next-h.offset > mostBehind {
				f.drop(h)
			}
		}
	}
}

// fits says whether there is room for the record: for as much as it is longer than the one whose
// place it takes. What is gone, or out of date, takes none, though it may have to be remembered for
// a while.
func (f *fold) fits(r *Record, now time.Time) bool {
	names, more := f.kinds[r.Kind], int64(len(r.Value))
	old := names[r.Name]
	if old.counts(now) {
		more -= int64(len(old.Value))
	}
	fit := func(count int) bool {
		return (count < Most || old.counts(now)) && (more <= 0 || f.size+more < room(r.Kind))
	}
	if fit(len(names)) {
		return true
	}
	f.expire(now)
	count := 0
	for _, h := range names {
		if h.counts(now) {
			count++
		}
	}
	return fit(count)
}
