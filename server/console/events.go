package console

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"
)

const (
	// maxListeners is how many pages are kept up to date at once in a process.
	maxListeners = 32
	// tick is how often a page is told its numbers. A look is for all who ask within half of it.
	tick = time.Second
	// listenTime is after how long a page has to ask anew, and whether it still may.
	listenTime = 5 * time.Minute
	// stale is how long a client may take to read what was sent.
	stale = 10 * time.Second
)

// live is what pages that stay open are told, all of them the same: texts by the
// names that elements have in data-live. There is no goroutine behind it: whoever
// listens and finds the last look too old looks, for all. It needs its api.
type live struct {
	api       v1
	mu        sync.Mutex
	listeners int
	// text is the last look, taken at. A look takes as long as the queues do, so
	// there is one at a time, and the others wait for it.
	looking sync.Mutex
	at      time.Time
	text    []byte
}

// enter counts a listener; false: there are enough.
func (l *live) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listeners == maxListeners {
		return false
	}
	l.listeners++
	return true
}

// leave is for who entered.
func (l *live) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listeners--
}

// liveURL is where pages ask for their numbers.
const liveURL = "/console/events"

// events tells a page its numbers, every second, as texts by the names that the page has for them.
func (c *Console) events(w http.ResponseWriter, r *http.Request) error {
	if !c.live.enter() {
		w.Header().Set("Retry-After", "5")
		return refuse(http.StatusTooManyRequests, "%d pages are kept up to date already: this one is as of now", maxListeners)
	}
	defer c.live.leave()
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	// A stop ends also a look that waits for the queues.
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(c.cfg.Stopping, cancel)()
	r = r.WithContext(ctx)
	end, every := time.NewTimer(listenTime), time.NewTicker(tick)
	defer end.Stop()
	defer every.Stop()
	out := http.NewResponseController(w)
	for {
		_ = out.SetWriteDeadline(time.Now().Add(stale)) // what has no deadlines is no connection
		if _, err := fmt.Fprintf(w, "data: %s\n\n%s", c.live.numbers(r), c.api.numbersOfOne(r)); err != nil || out.Flush() != nil {
			return nil // the page is closed
		}
		select {
		case <-every.C:
		case <-end.C:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// numbersOfOne is an event for the page of one operation, which may be too old for a list; empty:
// it is no such page, or the operation is not known now.
func (v v1) numbersOfOne(r *http.Request) string {
	if !r.URL.Query().Has("id") {
		return ""
	}
	o, err := v.operationOf(r)
	if err != nil {
		return ""
	}
	all := map[string]string{}
	o.tell(all)
	// No list has these.
	all[o.Key("causes")], all[o.Key("left out")], all[o.Key("unsorted")] = o.CausesText(), o.LeftOutText(), o.UnsortedText()
	all[o.Key("began")], all[o.Key("ended")], all[o.Key("missing")] = o.Began(), o.Ended(), o.MissingText()
	switch o.Action {
	case "replay":
		all[o.Key("died")] = o.Died()
	case "delete":
		all[o.Key("undoes")] = o.Undoes()
	}
	text, _ := json.Marshal(all) // as in numbers
	return "data: " + string(text) + "\n\n"
}

// numbers is what all pages show that changes, as JSON, but for operations that many were asked for
// after.
func (l *live) numbers(r *http.Request) []byte {
	l.looking.Lock()
	defer l.looking.Unlock()
	if time.Since(l.at) < tick/2 {
		return l.text
	}
	all := map[string]string{}
	// What cannot be told is left out, and asked for again in a second: the page says
	// by itself that nothing comes.
	if rows, _, err := l.api.rows(r); err == nil {
		for _, of := range rows {
			of.tell(all)
		}
	}
	if listed, err := l.api.listed(r, url.Values{}); err == nil {
		for _, o := range listed {
			o.tell(all)
		}
	}
	text, _ := json.Marshal(all) // texts by texts, which are always JSON
	// A look that was cut off with its listener is not for the others.
	if r.Context().Err() == nil {
		l.at, l.text = time.Now(), text
	}
	return text
}

// tell has the row's numbers; what is not known is left out, so that pages keep the last that was.
func (r row) tell(all map[string]string) {
	for name, text := range map[string]string{"lag": r.Lag, "in flight": r.InFlight, "retrying": r.Retrying, "dead": r.Dead, "oldest": r.Oldest} {
		if text != "" {
			all[r.Key(name)] = text
		}
	}
	all[r.Key("state")], all[r.Key("detail")], all[r.Key("held")], all[r.Key("known")] = r.State, r.Detail, r.Held, "known"
	if r.Stale {
		all[r.Key("known")] = "stale"
	}
}

// tell has the operation's numbers. Its bar is done/matched, where no operation is of nothing.
func (o operation) tell(all map[string]string) {
	all[o.Key("state")], all[o.Key("progress")], all[o.Key("why")] = o.State(), o.Progress(), o.Why
	all[o.Key("rate")], all[o.Key("left")] = o.RateText(), o.Left()
	all[o.Key("outcome")] = o.OutcomeText()
	all[o.Key("bar")] = fmt.Sprintf("%d/%d", o.Gone(), max(1, o.Matched))
}
