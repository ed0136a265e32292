package deadset

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"
)

// listing is a list while it is made.
type listing struct {
	query Query
	most  int64 // bytes that may be shown

	// begun says that the list has come to the message behind which it goes on.
	begun   bool
	matched int
	shown   []found
	bytes   int64 // of those
	last    int   // which of its copies the last one shown is
	next    string
	// copies counts messages that share id and time of death: each copy has a mark of its own.
	copies map[twin]int
}

// has says whether the query is about the message.
func (q *Query) has(f found) bool {
	return f.isDeletedBy(q.MovedBy) && f.isTrue(q.Filter)
}

// twin is what copies of a message share.
type twin struct {
	id   string
	died int64
}

func (f found) twin() twin { return twin{f.id, f.died.UnixNano()} }

func newListing(q Query, most int) *listing {
	return &listing{query: q, most: int64(most), begun: q.After == "", copies: map[twin]int{}}
}

// wants are those messages of a page that would be shown.
func (l *listing) wants(page []found) (some []int) {
	begun, copies := l.begun, 0
	for i, f := range page {
		switch {
		case len(l.shown)+len(some) == l.query.Limit:
			return some
		case begun:
			if l.query.has(f) {
				some = append(some, i)
			}
		case strings.HasPrefix(l.query.After, f.name()):
			begun = f.mark(l.copies[f.twin()]+copies) == l.query.After
			copies++
		}
	}
	return some
}

// tell adds a message; the oldest is the first.
func (l *listing) tell(f found) {
	of := f.twin()
	which := l.copies[of]
	l.copies[of]++
	isTrue := l.query.has(f)
	if isTrue {
		l.matched++
	}
	switch {
	case !l.begun:
		// The message at the mark was the last one shown: the next begins.
		l.begun = f.mark(which) == l.query.After
	case !isTrue || l.next != "":
	// One is always shown, however large.
	case len(l.shown) < l.query.Limit && (l.shown == nil || l.bytes+f.size <= l.most):
		l.shown = append(l.shown, f)
		l.bytes += f.size
		l.last = which
	default:
		l.next = l.shown[len(l.shown)-1].mark(l.last)
	}
}

// mark names a message in a list: by its name, and which of its copies it is.
func (f found) mark(which int) string { return f.name() + "-" + strconv.Itoa(which) }

// name stands for id and time of death. It is a hash, since an id may be anything.
func (f found) name() string {
	sum := sha256.Sum256([]byte(f.id + "\x00" + f.died.UTC().Format(time.RFC3339Nano)))
	return hex.EncodeToString(sum[:12])
}
