package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stepwell/stepwell/chaos/ledger"
	"github.com/stepwell/stepwell/internal/envelope"
)

// edited are edits of dead messages by an actor that dies in them, while another one edits and
// records go on dying. What had no answer is asked for again. In the end each record is handled, or
// in the dead set, and of each edited copy that was handled the trash has what was there before.
func edited() []scenario {
	var all []scenario
	for _, mark := range []string{"pages proven", "page read", "walk held", "edit kept", "walk published", "walk confirmed", "walk acked", "walk closed"} {
		all = append(all, scenario{name: "an actor dies in an edit at: " + mark, lone: true, env: mayEdit, fault: func(r *run) { r.dieInEdit(mark) }})
	}
	return append(all, scenario{name: "actors are killed in edits, twelve times", lone: true, env: mayEdit, fault: killInEdit})
}

var mayEdit = settings{"DEAD_SET_EDIT": "true"}

// edits are those that a run asks for, of several actors at once.
type edits struct {
	mu       sync.Mutex
	answered []edit
	asked    map[string]int // how often, of each id, where that was not refused
	cut      int            // had no answer
	again    int            // were done when they were asked for after that
	refused  []string
}

// edit is what was made of the message that has the id.
type edit struct {
	id string
	by ledger.Edit
}

// dieInEdit asks an actor that dies at the mark for edits until it does, three times.
func (r *run) dieInEdit(mark string) {
	r.whileEditing(func() {
		for range 3 {
			p := r.dying(mark, 1+r.random.IntN(3))
			r.until("it is ready", time.Minute, p.ready)
			r.until("it dies", 4*time.Minute, func() bool {
				r.editBy(p)
				return p.died(0)
			})
		}
	})
}

// killInEdit kills actors at any moment of edits.
func killInEdit(r *run) {
	r.whileEditing(func() {
		for range 12 {
			p := r.spawn()
			r.until("it is ready", time.Minute, p.ready)
			r.editBy(p) // so that its connections and pages are there
			const some = 300 * time.Millisecond
			killer := time.AfterFunc(time.Duration(r.random.Int64N(int64(some))), func() { _ = p.cmd.Process.Kill() }) // nobody else ends it
			for !p.died(0) {
				r.editBy(p)
			}
			killer.Stop()
		}
	})
}

// whileEditing does it while a living actor is asked for edits, too.
func (r *run) whileEditing(do func()) {
	r.t.Helper()
	r.edits = &edits{asked: map[string]int{}}
	r.until("some are dead", time.Minute, func() bool { _, dead := r.watch.done(); return dead > 40 })
	living, stop := r.actors[0], make(chan struct{})
	var other sync.WaitGroup
	other.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				r.edits.ask(r.t.Context(), living)
			case <-stop:
				return
			}
		}
	})
	defer other.Wait()
	defer close(stop)
	do()
}

// editBy asks the actor for an edit, and where it dies of that, a living one for the same.
func (r *run) editBy(p *process) {
	cut, ok := r.edits.ask(r.t.Context(), p)
	if !ok || !p.died(5*time.Second) {
		return
	}
	// Its lease is free some moments later.
	r.until("it is asked for again", time.Minute, func() bool {
		answer := r.edits.send(r.t.Context(), r.actors[0], cut)
		if answer == http.StatusOK {
			r.edits.again++
		}
		return answer == http.StatusOK || answer == http.StatusNotFound
	})
}

// dead is a message as a look shows it.
type dead struct{ ID, Value string }

// ask asks the actor for an edit of the oldest message that nobody asked to edit, and returns it
// where there was no answer.
func (e *edits) ask(ctx context.Context, p *process) (cut dead, ok bool) {
	status, text, err := p.do(ctx, http.MethodGet, "/v1/dead_set?count=100&stream=orders", "")
	var page struct{ Messages []dead }
	if err != nil || status != http.StatusOK || json.Unmarshal([]byte(text), &page) != nil {
		return cut, false // it has died, or others hold the messages
	}
	e.mu.Lock()
	i := slices.IndexFunc(page.Messages, func(m dead) bool { return e.asked[m.ID] == 0 })
	if i < 0 {
		e.mu.Unlock()
		return cut, false
	}
	m := page.Messages[i]
	e.asked[m.ID]++ // from now on it is taken
	e.mu.Unlock()
	status = e.send(ctx, p, m)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked[m.ID]--
	return m, status == 0
}

// send asks the actor to edit the message, and returns the status; 0: there was no answer.
func (e *edits) send(ctx context.Context, p *process, m dead) (status int) {
	number, _, _ := strings.Cut(m.Value, " ")
	body := fmt.Sprintf(`{"stream":"orders","value":"%s edited"}`, number)
	status, text, err := p.do(ctx, http.MethodPost, "/v1/dead_set/messages/"+url.PathEscape(m.ID)+"/edit", body)
	var answer struct {
		ID       string
		EditedID string `json:"edited_id"`
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case err != nil:
		e.cut++
		e.asked[m.ID]++
		return 0
	case status == http.StatusOK && json.Unmarshal([]byte(text), &answer) == nil && answer.EditedID == m.ID+"~"+answer.ID:
		e.asked[m.ID]++
		e.answered = append(e.answered, edit{m.ID, ledger.EditBy(answer.ID)})
	case status == http.StatusServiceUnavailable: // it may have been sent
		e.asked[m.ID]++
		fallthrough
	default:
		e.refused = append(e.refused, fmt.Sprint(status, " ", text))
	}
	return status
}

// judgeEdits complains about edits that were answered and whose copy was not handled, or whose
// message is still in the dead set; about copies that were handled though the trash has not what
// was there before; and about more copies than were asked for.
func (r *run) judgeEdits(entries []ledger.Entry) {
	if r.edits == nil {
		return
	}
	r.t.Helper()
	e, kept, handled := r.edits, map[edit]int{}, map[edit]bool{}
	for _, d := range r.inTrash() {
		by, _ := d.Headers[envelope.Moved].(string)
		kept[edit{d.MessageId, ledger.EditBy(by)}]++
	}
	copies := map[string]int{}
	for _, entry := range entries {
		of := edit{fmt.Sprintf("%s:%d:%d", r.topic, entry.Partition, entry.Offset), entry.Edit}
		if entry.Edit == 0 || handled[of] {
			continue
		}
		if handled[of] = true; kept[of] != 1 {
			r.complain("the edited copy of %s was handled, and of that edit the trash has %d messages", of.id, kept[of])
		}
		if copies[of.id]++; copies[of.id] > e.asked[of.id] {
			r.complain("%d edits of %s were asked for, and %d copies handled", e.asked[of.id], of.id, copies[of.id])
		}
	}
	resting := map[string]bool{}
	for _, p := range r.end.Queues[r.queue(deadSet)] {
		resting[fmt.Sprintf("%s:%d:%d", r.topic, p.Partition, p.Offset)] = true
	}
	for _, of := range e.answered {
		if !handled[of] || resting[of.id] {
			r.complain("an edit of %s was answered: its copy was handled: %t; it is still in the dead set: %t", of.id, handled[of], resting[of.id])
		}
	}
	if len(e.answered) == 0 || e.cut == 0 {
		r.complain("%d edits were answered, %d had no answer", len(e.answered), e.cut)
	}
	r.t.Logf("%d edits were answered, %d had no answer, of which %d were done when asked for again; %d copies handled, %d messages in the trash; %d were refused: %q",
		len(e.answered), e.cut, e.again, len(handled), len(kept), len(e.refused), e.refused[:min(len(e.refused), 1)])
}
