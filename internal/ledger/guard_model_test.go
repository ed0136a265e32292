package ledger

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// crashWorld are partitions, what the broker has of them, and the processes that own them. Records
// may end the process that calls them, or hang for good.
type crashWorld struct {
	limit  int
	parts  []*modelPart
	procs  []*modelProc // that live
	lives  uint32
	deaths int
	kills  map[string]bool
	hangs  map[string]bool
	// sentences are the records that were condemned, in turn.
	sentences []string
	// cut are, by record, the processes that lost it while it was announced, since a commit last
	// said that it came to its end.
	cut map[string]map[uint32]bool
}

type modelProc struct {
	life  uint32
	token *modelPart
}

type modelPart struct {
	w    *crashWorld
	n    int
	size int64
	// what the broker has
	committed int64
	said      Mark
	kept      map[int64]bool // settled beyond the commit, as far as that says so
	// what the owner has
	owner   *modelProc
	guard   Guard
	settled map[int64]bool
	running []int64
	aside   []int64
	handed  int64
	before  int64
	runs    int64
	trial   bool
	tried   bool
	ended   []int64 // suspects, since the last commit
}

func newCrashWorld(limit, procs int, sizes ...int) *crashWorld {
	w := &crashWorld{limit: limit, kills: map[string]bool{}, hangs: map[string]bool{}, cut: map[string]map[uint32]bool{}}
	for range procs {
		w.begin()
	}
	for n, size := range sizes {
		p := &modelPart{w: w, n: n, size: int64(size), said: NoMark(), kept: map[int64]bool{}}
		w.parts = append(w.parts, p)
		p.own(w.procs[n%procs])
	}
	return w
}

// begin starts a process.
func (w *crashWorld) begin() {
	w.lives++
	w.procs = append(w.procs, &modelProc{life: w.lives})
}

func (p *modelPart) name(offset int64) string { return fmt.Sprintf("%d:%d", p.n, offset) }

// own gives the partition to a process.
func (p *modelPart) own(proc *modelProc) {
	p.letGo()
	p.w.noteCut(p)
	p.owner, p.settled, p.running, p.aside, p.runs = proc, maps.Clone(p.kept), nil, nil, -1
	p.trial, p.tried, p.ended = false, false, nil
	p.handed, p.before = p.committed, p.committed
	p.guard = NewGuard(readMark(p.committed, appendMark(nil, p.committed, p.said)), p.committed, Rules{Limit: p.w.limit, Owner: proc.life})
	p.guard.SawEnd(p.size)
}

// noteCut notes that an owner loses a partition whose announced suspect has not come to its end.
func (w *crashWorld) noteCut(p *modelPart) {
	if p.owner == nil || p.said.Owner == 0 || p.said.Alone < 0 {
		return
	}
	name := p.name(p.said.Alone)
	if w.cut[name] == nil {
		w.cut[name] = map[uint32]bool{}
	}
	w.cut[name][p.said.Owner] = true
}

func (p *modelPart) letGo() {
	if p.owner != nil && p.owner.token == p {
		p.owner.token = nil
	}
}

// readMark reads what appendMark wrote.
func readMark(offset int64, raw []byte) Mark {
	m, _, ok := cutMark(offset, raw)
	if !ok {
		panic("a mark cannot be read")
	}
	return m
}

func (p *modelPart) oldest() int64 {
	o := p.committed
	for p.settled[o] {
		o++
	}
	return o
}

// handOut takes the next record, if it may.
func (p *modelPart) handOut() {
	for p.handed < p.size && p.settled[p.handed] {
		p.handed++
	}
	g := &p.guard
	g.Progress(p.oldest())
	switch {
	case p.handed == p.size || p.handed-p.before >= firstLead:
	case p.handed >= g.Bound():
		g.AskForMore(len(p.running))
	case g.Suspects(p.handed):
		p.aside = append(p.aside, p.handed)
		p.handed++
	default:
		p.running = append(p.running, p.handed)
		p.handed++
	}
}

// suspect is a step of who has suspects.
func (p *modelPart) suspect() {
	if len(p.aside) == 0 || p.runs >= 0 || p.trial {
		return
	}
	i := max(0, slices.IndexFunc(p.aside, func(o int64) bool { return o == p.guard.now.Accused || o == p.guard.now.Alone }))
	o := p.aside[i]
	switch {
	case !p.guard.Suspects(o):
	case p.owner.token != nil && p.owner.token != p:
		return
	case p.guard.IsAccused(o) && !p.tried:
		p.owner.token, p.trial = p, true
		return
	case !p.guard.MayRun(o):
		p.owner.token = p
		p.guard.Announce(o)
		return
	default:
		p.runs = o
	}
	p.aside = slices.Delete(p.aside, i, i+1)
	p.running = append(p.running, o)
}

// turn is what a suspect needs to run, if there is one: it is tried or announced, and a commit says
// so.
func (p *modelPart) turn() {
	for range 3 {
		p.handOut()
		p.suspect()
		p.probation()
		p.commit(false)
	}
}

// probation is over, if there was one.
func (p *modelPart) probation() {
	if !p.trial {
		return
	}
	p.trial, p.tried = false, true
	o, row := p.guard.now.Accused, 0
	for _, q := range p.w.parts {
		if q.owner == p.owner {
			row += q.guard.now.Condemned
		}
	}
	switch {
	case !p.guard.Review(p.w.isAlive):
	case row >= MostCondemned:
		p.guard.Acquit(o)
	default:
		p.guard.now.Condemned++
		p.w.sentences = append(p.w.sentences, p.name(o))
		p.settled[o] = true
		p.aside = slices.DeleteFunc(p.aside, func(a int64) bool { return a == o })
		p.guard.Acquit(o)
	}
}

// finish ends the i-th call, if that can be. Where it fails and rests, the record stays unsettled.
func (p *modelPart) finish(i int, settled bool) {
	if i >= len(p.running) {
		return
	}
	o := p.running[i]
	if p.w.kills[p.name(o)] || p.w.hangs[p.name(o)] {
		return
	}
	if p.runs == o {
		p.runs = -1
		p.guard.Returned(o)
		for _, q := range p.w.parts {
			if q.owner == p.owner {
				q.guard.EndRow()
			}
		}
		p.ended = append(p.ended, o)
	}
	if settled {
		p.settled[o] = true
		p.running = slices.Delete(p.running, i, i+1)
	}
}

// timeUp is the end of the time that a suspect may hold the token.
func (p *modelPart) timeUp() {
	if p.runs >= 0 && p.w.hangs[p.name(p.runs)] {
		p.runs = -1
		p.guard.Withdraw()
	}
}

func (p *modelPart) commit(last bool) {
	at := p.oldest()
	open := p.handed
	for _, o := range slices.Concat(p.running, p.aside) {
		open = min(open, o)
	}
	m := p.guard.Mark(at, open, p.handed, firstLead, len(p.running), last)
	p.committed, p.said, p.before = at, m, p.handed
	maps.DeleteFunc(p.settled, func(o int64, _ bool) bool { return o < at })
	p.kept = maps.Clone(p.settled)
	p.guard.Stored(m)
	for _, o := range p.ended {
		delete(p.w.cut, p.name(o))
	}
	p.ended = nil
	if p.owner.token == p && p.runs < 0 && !p.trial && p.guard.NoneAnnounced() {
		p.letGo()
	}
}

// die ends a process; another one takes its place, and its partitions go to whoever lives.
func (w *crashWorld) die(proc *modelProc, to func() *modelProc) {
	w.deaths++
	w.procs = slices.DeleteFunc(w.procs, func(q *modelProc) bool { return q == proc })
	w.begin()
	w.handOver(proc, to)
}

func (w *crashWorld) handOver(from *modelProc, to func() *modelProc) {
	for _, p := range w.parts {
		if p.owner == from {
			p.own(to())
		}
	}
}

// killing is a process that calls a record which ends it.
func (w *crashWorld) killing() *modelProc {
	for _, p := range w.parts {
		if slices.ContainsFunc(p.running, func(o int64) bool { return w.kills[p.name(o)] }) {
			return p.owner
		}
	}
	return nil
}

// stop ends a process in good order: calls that take too long are cut off.
func (w *crashWorld) stop(proc *modelProc, to func() *modelProc) {
	var parted []*modelPart
	for _, p := range w.parts {
		if p.owner == proc {
			p.commit(true)
			p.letGo()
			p.owner = nil
			parted = append(parted, p)
		}
	}
	w.procs = slices.DeleteFunc(w.procs, func(q *modelProc) bool { return q == proc })
	w.begin()
	for _, p := range parted {
		p.own(to())
	}
}

// innocent are those that were condemned and kill nobody. What a process was cut off from before it
// ended looks to all others as though it had died of it: so many may be held against a record.
func (w *crashWorld) innocent() (all []string) {
	for _, name := range w.sentences {
		gone := 0
		for life := range w.cut[name] {
			if !w.isAlive(life) {
				gone++
			}
		}
		if !w.kills[name] && gone <= w.limit {
			all = append(all, name)
		}
	}
	return all
}

func (w *crashWorld) isAlive(life uint32) bool {
	return slices.ContainsFunc(w.procs, func(q *modelProc) bool { return q.life == life })
}

func TestWhateverHappensOnlyWhatEndsTheProcessIsCondemned(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newCrashWorld(rapid.IntRange(1, 4).Draw(t, "limit"), rapid.IntRange(1, 3).Draw(t, "processes"), 40, 12, 3)
		killer := w.parts[rapid.IntRange(0, 2).Draw(t, "partition of the killer")]
		w.kills[killer.name(int64(rapid.IntRange(0, int(killer.size)-1).Draw(t, "killer")))] = rapid.Bool().Draw(t, "there is one")
		w.hangs["0:5"], w.hangs["1:2"] = true, rapid.Bool().Draw(t, "another hangs")
		anyPart := func() *modelPart { return rapid.SampledFrom(w.parts).Draw(t, "partition") }
		anyProc := func() *modelProc { return rapid.SampledFrom(w.procs).Draw(t, "process") }
		steps := map[string]func(){
			"hand out": func() {
				p := anyPart()
				for range rapid.IntRange(1, 20).Draw(t, "records") {
					p.handOut()
				}
			},
			"suspect": func() { anyPart().suspect() },
			// Single steps alone come to a trial in one walk of thousands.
			"turn": func() { anyPart().turn() },
			"turn that comes to its end": func() {
				p := anyPart()
				p.turn()
				if i := slices.Index(p.running, p.runs); i >= 0 {
					p.finish(i, rapid.Bool().Draw(t, "well"))
				}
			},
			"turn that an expulsion cuts off": func() {
				p := anyPart()
				p.turn()
				w.handOver(p.owner, anyProc)
			},
			"turn that a stop cuts off": func() {
				p := anyPart()
				p.turn()
				w.stop(p.owner, anyProc)
			},
			"finish":    func() { anyPart().finish(rapid.IntRange(0, 9).Draw(t, "which"), true) },
			"rest":      func() { anyPart().finish(rapid.IntRange(0, 9).Draw(t, "which"), false) },
			"time up":   func() { anyPart().timeUp() },
			"probation": func() { anyPart().probation() },
			"commit":    func() { anyPart().commit(false) },
			"settled without a call": func() {
				p := anyPart()
				if p.handed < p.size {
					p.settled[p.handed] = true
				}
			},
			"killed": func() {
				if proc := w.killing(); proc != nil {
					w.die(proc, anyProc)
				}
			},
			"stopped":  func() { w.stop(anyProc(), anyProc) },
			"expelled": func() { w.handOver(anyProc(), anyProc) },
			"cut off":  func() { anyPart().own(anyProc()) },
		}
		names := slices.Sorted(maps.Keys(steps))
		for range rapid.IntRange(1, 600).Draw(t, "steps") {
			steps[rapid.SampledFrom(names).Draw(t, "step")]()
			if bad := w.innocent(); len(bad) > 0 {
				t.Fatalf("condemned though they kill nobody: %v, after %d deaths", bad, w.deaths)
			}
		}
	})
}

// run lets everybody work side by side, until all is done but what hangs or may not be condemned.
func (w *crashWorld) run(t *rapid.T, seed uint64, parallel, each int, more func(step int)) {
	random := rand.New(rand.NewPCG(seed, 1))
	to := func() *modelProc { return w.procs[random.IntN(len(w.procs))] }
	for step := 1; !w.done(); step++ {
		if step > 200_000 {
			t.Fatalf("no end after %d deaths: condemned %v; %+v", w.deaths, w.sentences, w.parts[0].guard)
		}
		for _, p := range w.parts {
			if len(p.running) < parallel {
				p.handOut()
			}
			p.suspect()
			p.timeUp()
			for i := len(p.running) - 1; i >= 0; i-- {
				if random.IntN(3) == 0 {
					p.finish(i, true)
				}
			}
			if step%each == 0 || p.guard.ask {
				p.commit(false)
			}
			if random.IntN(10) == 0 {
				p.probation()
			}
		}
		if proc := w.killing(); proc != nil && random.IntN(20) == 0 {
			w.die(proc, to)
		}
		more(step)
	}
}

// done says that only what hangs is left.
func (w *crashWorld) done() bool {
	for _, p := range w.parts {
		for o := p.committed; o < p.size; o++ {
			if !p.settled[o] && !w.hangs[p.name(o)] {
				return false
			}
		}
	}
	return true
}

func TestWhatKillsTheProcessIsFoundWithinTwiceTheLimitAndOneDeathsAndNobodyElse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.SampledFrom([]int{1, 5, 40, 1500}).Draw(t, "size")
		w := newCrashWorld(rapid.IntRange(1, 4).Draw(t, "limit"), rapid.IntRange(1, 3).Draw(t, "processes"), size, 30, 30)
		killer := w.parts[0].name(int64(rapid.IntRange(0, size-1).Draw(t, "killer")))
		w.kills[killer] = true
		w.hangs["1:3"] = rapid.Bool().Draw(t, "an innocent one hangs")
		stops := rapid.IntRange(0, 5).Draw(t, "stops")
		w.run(t, rapid.Uint64().Draw(t, "seed"), rapid.IntRange(2, 50).Draw(t, "parallel"), rapid.IntRange(1, 200).Draw(t, "commit each"), func(step int) {
			if stops > 0 && step%57 == 0 {
				stops--
				w.stop(w.procs[0], func() *modelProc { return w.procs[len(w.procs)-1] })
			}
		})
		if !slices.Equal(w.sentences, []string{killer}) || w.deaths != 2*w.limit+1 {
			t.Fatalf("%d deaths with a limit of %d; condemned %v, want %s", w.deaths, w.limit, w.sentences, killer)
		}
	})
}

func TestTwoKillersBesideOneAnotherAreFoundAndNobodyElse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newCrashWorld(rapid.IntRange(2, 4).Draw(t, "limit"), rapid.IntRange(1, 3).Draw(t, "processes"), 40, 40)
		w.kills[w.parts[0].name(int64(rapid.IntRange(0, 39).Draw(t, "one")))] = true
		w.kills[w.parts[1].name(int64(rapid.IntRange(0, 39).Draw(t, "other")))] = true
		w.run(t, rapid.Uint64().Draw(t, "seed"), rapid.IntRange(1, 20).Draw(t, "parallel"), rapid.IntRange(1, 50).Draw(t, "commit each"), func(int) {})
		found := map[string]bool{} // a sentence that no commit had is passed again
		for _, name := range w.sentences {
			found[name] = true
		}
		if !maps.Equal(found, w.kills) {
			t.Fatalf("condemned %v after %d deaths, want %v", w.sentences, w.deaths, slices.Collect(maps.Keys(w.kills)))
		}
	})
}

func TestABadDeployCondemnsNobodyWhenItDiesBeforeTheProbationIsOver(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newCrashWorld(rapid.IntRange(1, 3).Draw(t, "limit"), 1, 20, 20)
		calls := rapid.IntRange(1, 10).Draw(t, "steps until it dies")
		for range 50 {
			for range calls {
				for _, p := range w.parts {
					p.handOut()
					p.suspect()
					p.commit(false)
				}
			}
			w.die(w.procs[0], func() *modelProc { return w.procs[0] })
		}
		w.run(t, 1, 10, 5, func(int) {}) // the deploy is mended
		if len(w.sentences) > 0 {
			t.Fatalf("condemned %v", w.sentences)
		}
	})
}
