package chaos

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/stepwell/stepwell/deadset"
	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/queue"
)

// counted are deletes of the oldest dead, by their number, into the trash, by an actor that dies in
// them, while records go on dying. Before and after each the queue itself is looked at: nothing but
// the oldest may go, no more than was asked for, and nothing but into the trash. In the end all is
// restored, and judged as what was never deleted.
func counted() []scenario {
	var all []scenario
	for _, mark := range []string{"pages proven", "page read", "walk held", "walk published", "walk confirmed", "walk acked", "walk closed"} {
		all = append(all, scenario{name: "an actor dies in a delete by count at: " + mark, lone: true, fault: func(r *run) { r.dieInDelete(mark) }})
	}
	return append(all, scenario{name: "an actor dies in a delete by count at: page filled", lone: true, env: inPages, fault: func(r *run) { r.dieInDelete("page filled") }})
}

// dieInDelete asks an actor that dies at the mark for deletes until it does, three times, undoes
// some of those that it answered, and restores all in the end.
func (r *run) dieInDelete(mark string) {
	answered, undone := 0, 0
	for n := range 3 {
		p := r.dyingOften(mark, n)
		r.until("it dies", 4*time.Minute, func() bool {
			done := r.deleteOldest(p, 30+r.random.IntN(40))
			if done.Undo != "" {
				if answered++; answered%2 == 1 {
					r.undoDelete(done)
					undone++
				}
			}
			return p.died(0)
		})
	}
	// By a living one, so that there is an answer in any case.
	r.undoDelete(r.deleteOldest(r.actors[0], 30))
	all := r.inTrash()
	// Where pages are small, or more have arrived than a window shows, a kill may leave copies.
	r.single = r.env == nil && len(r.leafed(r.queue(deadSet))) < queue.WindowSize
	r.asked(`{"action":"restore","stream":"orders","select":{"all":true}}`)
	r.allDone()
	if left := r.inTrash(); len(left) > 0 {
		r.complain("%d messages are in the trash after a restore of all", len(left))
	}
	r.t.Logf("%d deletes were answered, and %d of these undone; %d messages of the others restored; nothing may be there twice: %t",
		answered+1, undone+1, len(all), r.single)
}

// deleted is what an actor answers to a delete.
type deleted struct {
	Done int
	Undo string
	gone []string // what was deleted, by deathOf
}

// deleteOldest asks the actor to delete so many of the oldest, and judges what became of them. No
// operation runs meanwhile. Without an answer it is empty.
func (r *run) deleteOldest(p *process, count int) (answer deleted) {
	r.t.Helper()
	var before []string
	r.until("more are dead than are deleted", time.Minute, func() bool {
		before = deathsOf(r.leafed(r.queue(deadSet)))
		return len(before) > count
	})
	status, text, err := p.do(r.t.Context(), http.MethodDelete, fmt.Sprintf("/v1/dead_set?count=%d&stream=orders", count), "")
	switch {
	case err != nil: // it has died, or does
		p.died(5 * time.Second)
	case status != http.StatusOK || json.Unmarshal([]byte(text), &answer) != nil:
		r.complain("a delete of %d: %d %s", count, status, text)
	case answer.Done != count || answer.Undo == "":
		r.complain("a delete of %d says: %s", count, text)
	}
	oldest, others := before[:count], before[count:]
	var after []string
	if !r.within(30*time.Second, func() bool {
		after = deathsOf(r.leafed(r.queue(deadSet)))
		return isWithin(others, after)
	}) {
		gone := slices.DeleteFunc(others, func(id string) bool { return slices.Contains(after, id) })
		r.complain("of %d dead %d were to be deleted, and of the others %d are gone, or all in another order: %v", len(before), count, len(gone), gone[:min(len(gone), 5)])
		return answer
	}
	at := slices.Index(after, others[0])
	if !isWithin(after[:at], oldest) {
		r.complain("not only some of %v are before the others: %v", oldest, after[:at])
	}
	answer.gone = slices.DeleteFunc(slices.Clone(oldest), func(id string) bool { return slices.Contains(after, id) })
	if err == nil && len(answer.gone) != answer.Done {
		r.complain("%d were deleted, and %d are gone", answer.Done, len(answer.gone))
	}
	r.areInTrash(answer)
	return answer
}

// areInTrash complains where those that are gone are not in the trash, of a delete that answered in
// their order, with its mark, and alone.
func (r *run) areInTrash(of deleted) {
	r.t.Helper()
	var all, own []string
	for _, d := range r.inTrash() {
		all = append(all, deathOf(&d))
		if by, _ := d.Headers[envelope.Moved].(string); by == of.Undo {
			own = append(own, deathOf(&d))
		}
	}
	for _, id := range of.gone {
		if !slices.Contains(all, id) {
			r.complain("%s is neither in the dead set nor in the trash", id)
		}
	}
	if of.Undo != "" && !slices.Equal(own, of.gone) {
		r.complain("%s deleted %v, and in the trash are %v", of.Undo, of.gone, own)
	}
}

// undoDelete restores what that delete deleted, by the name that it was told by.
func (r *run) undoDelete(of deleted) {
	r.t.Helper()
	id := r.asked(undo(of.Undo))
	for _, o := range r.allDone() {
		if o.ID == id && o.Done != of.Done {
			r.complain("of %d that were deleted %d were restored", of.Done, o.Done)
		}
	}
	// They are the newest: where there are too many they cannot be seen.
	now := deathsOf(r.leafed(r.queue(deadSet)))
	if len(now) < queue.WindowSize && !isWithin(of.gone, now) {
		r.complain("%v were restored, and there are %v", of.gone, now)
	}
}

// allDone waits until no operation waits or runs, and complains about those that are not done.
func (r *run) allDone() (all []operation) {
	r.t.Helper()
	all = r.over()
	for _, o := range all {
		if o.State != "done" {
			r.complain("a %s is %s: %s", o.Action, o.State, o.Why)
		}
	}
	return all
}

// isWithin says whether the messages are among all, in their order.
func isWithin(some, all []string) bool {
	for _, id := range all {
		if len(some) > 0 && some[0] == id {
			some = some[1:]
		}
	}
	return len(some) == 0
}

func deathsOf(all []amqp.Delivery) (deaths []string) {
	for i := range all {
		deaths = append(deaths, deathOf(&all[i]))
	}
	return deaths
}

// leafed has the oldest messages of a queue in their order, as many as a window of the actors
// holds, and gives them back: who holds more than they do has them find others first. Somebody who
// has some may not have ended yet: then it waits.
func (r *run) leafed(name string) (all []amqp.Delivery) {
	r.t.Helper()
	r.until("nobody else has messages of "+name, time.Minute, func() bool {
		defer r.disconnect()
		ch := r.channel()
		there, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
		r.check(err)
		r.check(ch.Qos(queue.WindowSize, 0, false))
		deliveries, err := ch.Consume(name, "", false, false, false, false, nil)
		r.check(err)
		all = taken(deliveries, min(there.Messages, queue.WindowSize))
		return len(all) >= min(there.Messages, queue.WindowSize)
	})
	return all
}

// taken reads so many messages, and those that come meanwhile.
func taken(deliveries <-chan amqp.Delivery, n int) (all []amqp.Delivery) {
	const most, quiet = 10 * time.Second, 100 * time.Millisecond
	for len(all) < queue.WindowSize {
		wait := most
		if len(all) >= n {
			wait = quiet
		}
		select {
		case d, ok := <-deliveries:
			if !ok {
				return all
			}
			all = append(all, d)
		case <-time.After(wait):
			return all
		}
	}
	return all
}

// inTrash has what is in the trash of the dead set, page by page. Either half of their numbers has
// a run of pages.
func (r *run) inTrash() (all []amqp.Delivery) {
	r.t.Helper()
	for _, k := range []int{0, deadset.MaxPages / 2} {
		for ; r.isThere(trashPage(r, k)); k++ {
			all = append(all, r.leafed(trashPage(r, k))...)
		}
	}
	return all
}

func trashPage(r *run, k int) string { return deadset.TrashOf(r.queue(deadSet), 72*time.Hour, k) }

func (r *run) isThere(name string) bool {
	r.t.Helper()
	_, err := r.channel().QueueDeclarePassive(name, true, false, false, false, nil)
	if e, ok := errors.AsType[*amqp.Error](err); ok && e.Code == amqp.NotFound {
		return false
	}
	r.check(err)
	return true
}
