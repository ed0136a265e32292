package chaos

import (
	"slices"
	"strings"
	"time"
)

// inParts are the MODES of the actors of one app: two read, one retries, and one has the channel.
// While that one is away nobody else does its work.
var inParts = []string{"streams,api", "streams,api", "retries,api", "channels,api"}

// modes are faults of an app whose processes run different parts of it: what one of them parks, or
// hands over, is another's to try again.
func modes() []scenario {
	all := []scenario{
		{name: "modes: an actor is killed, three times", short: true, fault: killAnActor},
		{name: "modes: all actors are killed at once", fault: killAllActors},
		{name: "modes: an actor is stopped, three times", fault: stopAnActor},
		{name: "modes: nobody retries for a while, then nobody reads", fault: partsAway},
		{name: "modes: RabbitMQ and an actor are killed at once", fault: killRabbitMQAndAnActor},
		{name: "modes: connections are cut to RabbitMQ", fault: func(r *run) { r.often(r.toRabbit.Cut) }},
	}
	for part, marks := range map[string][]string{
		"streams":  {"publish", "published", "confirmed", "parked", "commit", "committed"},
		"retries":  {"publish", "published", "confirmed", "ack", "acked"},
		"channels": {"publish", "published", "confirmed", "ack", "acked"},
	} {
		for _, mark := range marks {
			all = append(all, scenario{name: "modes: who has " + part + " dies at: " + mark, fault: func(r *run) { r.dieInPart(part, mark) }})
		}
	}
	for i := range all {
		all[i].parts = inParts
	}
	slices.SortStableFunc(all[6:], func(a, b scenario) int { return strings.Compare(a.name, b.name) }) // a map has no order
	return all
}

// partsAway kills those of one part, and those of another when they are back.
func partsAway(r *run) {
	for _, part := range []string{"retries", "channels", "streams"} {
		n := 0
		for _, p := range slices.Clone(r.actors) {
			if p.has(part) {
				p.kill()
				n++
			}
		}
		r.pause(3 * time.Second) // ten times the wait of a failure, and half a session
		for range n {
			r.spawn()
		}
		for _, p := range r.actors {
			r.until("it is ready", time.Minute, p.ready)
		}
	}
}

// dieInPart starts an actor with that part alone, which dies at the mark, three times.
func (r *run) dieInPart(part, mark string) {
	for range 3 {
		p := r.dying(mark, 1+r.random.IntN(10), settings{modesVariable: part})
		if !p.died(40 * time.Second) {
			r.complain("the actor never came to the mark %s", mark)
			p.leave()
		}
	}
}

// modesVariable says which parts run in a process.
const modesVariable = "MODES"

// missing are the MODES of the part that no living actor has, and of the first where none is
// missing: who takes the place of one that was killed has its part. Without parts it is empty, and
// each actor has all.
func (r *run) missing() string {
	left := slices.Clone(r.parts)
	for _, p := range r.actors {
		if i := slices.Index(left, p.modes); i >= 0 {
			left = slices.Delete(left, i, i+1)
		}
	}
	if left = append(left, r.parts...); len(left) > 0 {
		return left[0]
	}
	return ""
}

// has tells whether the actor runs that part.
func (p *process) has(part string) bool {
	return p.modes == "" || slices.Contains(strings.Split(p.modes, ","), part)
}

// with is how many living actors run that part.
func (r *run) with(part string) (n int) {
	for _, p := range r.actors {
		if p.has(part) {
			n++
		}
	}
	return n
}
