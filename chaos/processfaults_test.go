package chaos

import (
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// anActor picks one of those that run.
func (r *run) anActor() *process { return r.actors[r.random.IntN(len(r.actors))] }

// killOne kills an actor and starts another.
func (r *run) killOne() {
	r.anActor().kill()
	r.spawn()
}

func killAnActor(r *run) { r.often(r.killOne) }

// killManyTimes kills actors at any moment of their lives, most of which end before they are ready.
func killManyTimes(r *run) {
	for range 300 {
		r.killOne()
		r.sometime(600 * time.Millisecond)
	}
}

func killAllActors(r *run) {
	r.often(func() {
		r.killAll()
		r.sometime(5 * time.Second)
	})
}

// killAll kills all actors and starts as many others.
func (r *run) killAll() {
	n := len(r.actors)
	for len(r.actors) > 0 {
		r.actors[0].kill()
	}
	for range n {
		r.spawn()
	}
}

func stopAnActor(r *run) {
	r.often(func() {
		r.anActor().leave()
		r.spawn()
	})
}

func rebalanceStorm(r *run) {
	for range 4 {
		p := r.spawn()
		r.pause(3 * time.Second)
		if r.random.IntN(3) == 0 {
			p.kill()
		} else {
			p.leave()
		}
	}
}

func suspendAnActor(r *run) {
	p := r.anActor()
	p.signal(syscall.SIGSTOP)
	r.pause(9 * time.Second) // the session is six
	p.signal(syscall.SIGCONT)
	r.pause(2 * time.Second)
}

// newDelay rolls out another delay, whose queue is another one; both generations are killed.
func newDelay(r *run) {
	r.delays = append(r.delays, 900*time.Millisecond)
	env := settings{"RETRY_DELAY": r.delays[0].String()}
	old := slices.Clone(r.actors)
	p := r.spawnWith(env)
	r.until("it is ready", time.Minute, p.ready)
	r.sometime(2 * time.Second)
	p.kill()
	old[0].kill()
	r.spawnWith(env)
	r.pause(2 * time.Second)
	r.spawnWith(env)
	old[1].leave()
	r.pause(2 * time.Second)
}

// frozen does it while no actor runs.
func (r *run) frozen(do func()) {
	r.t.Helper()
	for _, p := range r.actors {
		p.signal(syscall.SIGSTOP)
	}
	defer func() {
		for _, p := range r.actors {
			p.signal(syscall.SIGCONT)
		}
	}()
	do()
}

// inASlowCall waits until some actor has been in a call for a second.
func (r *run) inASlowCall() {
	r.t.Helper()
	r.until("a slow call is under way", time.Minute, func() bool {
		return slices.ContainsFunc(r.actors, func(p *process) bool { return r.watch.running(p.cmd.Process.Pid) > time.Second })
	})
}

// expelMembers has Kafka remove all members from their group, whose handlers are in the middle of
// slow calls, again and again. None of them died.
func expelMembers(r *run) {
	before := r.watch.cancelled()
	for n := 0; n < 8 || n < 40 && r.watch.cancelled() == before; n++ { // a call may end before Kafka has heard
		r.inASlowCall()
		r.until("somebody is expelled", time.Minute, func() bool { return r.expelAll() > 0 })
		r.sometime(3 * time.Second)
	}
	if r.watch.cancelled() == before {
		r.complain("no slow call was cut off")
	}
}

// expelAll leaves the group in the name of each member, and returns how many that were.
func (r *run) expelAll() (n int) {
	r.t.Helper()
	ctx, cancel := r.shortly()
	defer cancel()
	group := r.app + ".orders"
	described, err := kadm.NewClient(r.client).DescribeGroups(ctx, group)
	r.check(err)
	leave := kmsg.NewPtrLeaveGroupRequest()
	leave.Group = group
	for _, m := range described[group].Members {
		member := kmsg.NewLeaveGroupRequestMember()
		member.MemberID = m.MemberID
		leave.Members = append(leave.Members, member)
	}
	answer, err := leave.RequestWith(ctx, r.client)
	r.check(err)
	for _, m := range answer.Members {
		if m.ErrorCode == 0 {
			n++
		}
	}
	return n
}

// evict asks all actors to stop while their handlers are in the middle of slow calls, and kills
// them a moment later, again and again.
func evict(r *run) {
	for range 6 {
		r.inASlowCall()
		for _, p := range r.actors {
			p.signal(syscall.SIGTERM)
		}
		r.pause(500*time.Millisecond + time.Duration(r.random.Int64N(int64(time.Second))))
		r.killAll()
	}
}

// stopBesideTheDead stops actors that have little time for it while their group waits for a member
// that is dead.
func stopBesideTheDead(r *run) {
	for range 6 {
		p := r.spawnWith(settings{"SHUTDOWN_TIMEOUT": fmt.Sprintf("%ds", 4+r.random.IntN(5))})
		r.until("it is ready", time.Minute, p.ready)
		r.actors[0].kill()
		r.spawn()                   // it asks for a rebalance
		r.sometime(5 * time.Second) // the session is six
		p.leave()
	}
}
