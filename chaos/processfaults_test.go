package chaos

import (
	"slices"
	"syscall"
	"time"
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
