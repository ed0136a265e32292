package deadset

import (
	"sync"
	"time"
)

// pageLife is for how long those who look share what the first of them saw.
const pageLife = time.Second

// recent is what was seen within the last second, for those who ask again: each look hands all it
// shows out of the queue and back. Nothing in it is older than the last change that this process
// made.
type recent struct {
	// mu guards the fields below. What they point to is shared, and never written to.
	mu sync.Mutex
	// page is that of a peek; nil: there was none, or the dead set was changed since.
	page    *shared
	survey  *survey // nil: none
	changes int     // how often a walk began or ended that changes the dead set
}

// shared is a page and the count it answers.
type shared struct {
	page  Page
	count int
}

// pageFor is a page that says enough. changes is for keepPage.
func (r *recent) pageFor(count int) (page Page, ok bool, changes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.page == nil {
		return page, false, r.changes
	}
	page = r.page.page
	// A page of fewer than were asked for is enough where there were no more.
	if r.page.count < count && len(page.Messages) < page.Depth {
		return Page{}, false, r.changes
	}
	page.Messages = page.Messages[:min(count, len(page.Messages))]
	return page, true, r.changes
}

// keepPage keeps the page, unless the dead set was changed since.
func (r *recent) keepPage(page Page, count, changes int) {
	mine := &shared{page, count}
	keep(r, &r.page, mine, changes)
}

// last is the last survey, or nil. changes is for keepSurvey.
func (r *recent) last() (v *survey, changes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.survey, r.changes
}

// keepSurvey keeps the survey, unless the dead set was changed since.
func (r *recent) keepSurvey(v *survey, changes int) { keep(r, &r.survey, v, changes) }

// keep keeps what was seen for pageLife, unless the dead set was changed since.
func keep[T any](r *recent, at **T, seen *T, changes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// What was seen before a walk's end may be gone by now.
	if r.changes != changes {
		return
	}
	*at = seen
	time.AfterFunc(pageLife, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if *at == seen {
			*at = nil
		}
	})
}

// forget is called whenever the dead set is about to change, or has changed. A look that is under
// way meanwhile finds another number of changes, and keeps nothing.
func (r *recent) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.page, r.survey = nil, nil
	r.changes++
}
