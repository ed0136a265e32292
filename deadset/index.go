package deadset

import (
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A process remembers the traits of what looks found in pages, so that the next look need not read
// them again. Nothing acts on what is remembered: who replays or deletes tests each message in
// hand.
//
// Nobody says that a page has changed, for that can be seen. Pages change under the lease only, in
// two ways: messages leave, and those that a sort moves are put into the last page that has
// messages, or behind it. So a page can only shrink for as long as one behind it has messages, and
// has the same ones where it has as many as before. That one behind it had messages all the time is
// certain where one is there still that was there before, in the same place: a message that left
// comes back in another. So a look reads the last page that is remembered, and what lies behind;
// of those before it, only those whose depth is another.

// isSame says that a message is the one that is remembered.
func (f found) isSame(as found) bool {
	return f.place == as.place && f.id == as.id && f.died.Equal(as.died)
}

// indexLife is for how long pages are remembered that nobody looks at.
const indexLife = 10 * time.Minute

// Index is how much memory all dead sets of a process together may take to remember what is in
// their pages.
type Index struct {
	most int64
	used atomic.Int64
}

// NewIndex makes an Index of so many bytes.
func NewIndex(bytes int) *Index { return &Index{most: int64(bytes)} }

// take says whether there is room for so much more.
func (x *Index) take(bytes int64) bool {
	if x == nil {
		return false
	}
	if x.used.Add(bytes) > x.most {
		x.used.Add(-bytes)
		return false
	}
	return true
}

// index is what is remembered of the pages of one dead set. All of it was so at the last look that
// came to compare it with the pages, or later.
type index struct {
	room *Index // nil: nothing is remembered

	// mu guards the fields below.
	mu    sync.Mutex
	pages map[string]leaf // by their queues
	end   *time.Timer     // forgets them
}

// leaf is what is remembered of a page: all of its messages, in their order.
type leaf struct {
	all   []found
	bytes int64
}

// keep remembers a page, all of which was read, where there is room.
func (x *index) keep(p part, all []*held) {
	if x.room == nil {
		return
	}
	size := int64(len(all)) * int64(reflect.TypeFor[found]().Size())
	texts := map[string]string{}
	own := func(at *string) {
		text, known := texts[*at]
		if !known {
			text = strings.Clone(*at) // it may be a part of a message, which would be kept whole
			texts[text] = text
			size += int64(len(text))
		}
		*at = text
	}
	l := leaf{all: make([]found, 0, len(all))}
	for i := range all {
		f := found{traits: all[i].found().traits}
		for _, at := range []*string{&f.id, &f.reason, &f.errorType, &f.error, &f.group, &f.pattern, &f.topic, &f.operation} {
			own(at)
		}
		l.all = append(l.all, f)
	}
	l.bytes = size
	x.mu.Lock()
	defer x.mu.Unlock()
	x.drop(p.queue)
	if x.room.take(size) {
		x.pages[p.queue] = l
	}
}

// drop forgets a page. The lock must be held.
func (x *index) drop(page string) {
	if l, known := x.pages[page]; known {
		x.room.used.Add(-l.bytes)
		delete(x.pages, page)
	}
}

// forget forgets all.
func (x *index) forget() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for page := range x.pages {
		x.drop(page)
	}
}

// use says that somebody looks.
func (x *index) use() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.end == nil {
		x.end = time.AfterFunc(indexLife, x.forget)
		return
	}
	x.end.Reset(indexLife)
}

// of is what is remembered of a page; nil: nothing.
func (x *index) of(p part) []found {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.pages[p.queue].all
}

// last is the last of the parts that is remembered and has messages; below 0: there is none.
func (x *index) last(parts []part) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	for i, p := range slices.Backward(parts) {
		if _, known := x.pages[p.queue]; known && p.depth > 0 {
			return i
		}
	}
	return -1
}

// prove forgets all pages but those before the part of which it is certain that they are as they
// were; now is what the part has.
func (x *index) prove(parts []part, i int, now []*held) {
	x.mu.Lock()
	defer x.mu.Unlock()
	before := map[int64]found{}
	for _, f := range x.pages[parts[i].queue].all {
		before[f.place] = f
	}
	still := slices.ContainsFunc(now, func(h *held) bool {
		is := h.found()
		f, known := before[is.place]
		return known && is.place > 0 && f.isSame(*is)
	})
	same := map[string]bool{}
	for _, p := range parts[:i] {
		same[p.queue] = still && p.depth == len(x.pages[p.queue].all)
	}
	for page := range x.pages {
		if !same[page] {
			x.drop(page)
		}
	}
}
