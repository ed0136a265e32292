package inbox_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// drawnWorld is a world with a handful of messages, some of them with a past.
func drawnWorld(t *rapid.T) *crashWorld {
	w := newCrashWorld(
		rapid.IntRange(1, 3).Draw(t, "limit"),
		rapid.SampledFrom([]int{2, 8}).Draw(t, "workers"),
	)
	w.wait = rapid.Bool().Draw(t, "there is a queue beside")
	w.queue.newRabbit = rapid.Bool().Draw(t, "what is given back is not counted")
	w.seats = rapid.IntRange(0, 2).Draw(t, "seats")
	add := func(kind string, most int, of temper) {
		for n := range rapid.IntRange(0, most).Draw(t, kind) {
			of.accused = 0
			returns := int64(0)
			switch rapid.SampledFrom([]string{"none", "many returns", "deaths"}).Draw(t, "past") {
			case "many returns":
				returns = 11
			case "deaths":
				of.accused = rapid.SampledFrom([]int{w.limit, w.limit, 1}).Draw(t, "accused")
			}
			for range rapid.SampledFrom([]int{1, 1, 2}).Draw(t, "copies") {
				w.put(fmt.Sprint(kind, " ", n), of, returns)
			}
		}
	}
	add("innocent", 3, temper{takes: 10 * time.Millisecond})
	add("short", 2, temper{takes: s})
	add("failing", 1, temper{takes: 10 * time.Millisecond, fails: 2})
	add("slow", 1, temper{takes: 2*modelAloneFor + s})
	add("killer", 2, temper{takes: time.Millisecond, kills: always})
	add("late killer", 1, temper{takes: modelProbation + s/2, kills: always}) // within modelAloneFor: later ones are never found
	add("relenting", 1, temper{takes: 5 * time.Millisecond, kills: rapid.IntRange(1, 8).Draw(t, "kills")})
	for range rapid.IntRange(1, 3).Draw(t, "processes") {
		w.change(w.begin)
	}
	return w
}

// steps are what may happen.
func (w *crashWorld) steps(t *rapid.T) map[string]func() {
	anyOf := func() *process {
		if all := w.alive(); len(all) > 0 {
			return all[rapid.IntRange(0, 9).Draw(t, "process")%len(all)]
		}
		return nil
	}
	pauses := []time.Duration{time.Millisecond, 50 * time.Millisecond, s, 3 * s, 8 * s, 20 * s}
	long := func(of string) time.Duration { return rapid.SampledFrom(pauses).Draw(t, of) }
	arrives := func() bool { return rapid.Bool().Draw(t, "what is on its way arrives") }
	// fault is something that happens to a process; the lock is held when it does.
	faults := map[string]func(p *process) func(){
		"die": func(p *process) func() { a := arrives(); return func() { p.die(a) } },
		"cut": func(p *process) func() {
			a, d := arrives(), long("cut for")
			return func() { p.cut(d, a) }
		},
		"stop": func(p *process) func() { return p.end },
	}
	fault := func(p *process) func() {
		return faults[rapid.SampledFrom(slices.Sorted(maps.Keys(faults))).Draw(t, "fault")](p)
	}
	return map[string]func(){
		"time": func() { time.Sleep(long("time")) },
		"fault": func() {
			if p := anyOf(); p != nil {
				w.change(fault(p))
			}
		},
		// While a publish is on its way, or its confirm, or the ack that follows that.
		"fault after a publish": func() {
			p := anyOf()
			if p == nil {
				return
			}
			of, after := fault(p), time.Duration(rapid.IntRange(1, 11).Draw(t, "ms after"))*time.Millisecond
			w.change(func() {
				p.link.trap = func() { time.AfterFunc(after, func() { w.change(of) }) }
			})
		},
		"fault in a suspect's call": func() {
			if p := w.awaitSuspect(); p != nil {
				of := fault(p)
				time.Sleep(rapid.SampledFrom([]time.Duration{time.Millisecond, 5 * time.Millisecond, s / 2, 3 * s}).Draw(t, "into the call"))
				w.change(of)
			}
		},
		"pause": func() {
			if p := anyOf(); p != nil {
				p.pause(long("pause"))
			}
		},
		"dead set": func() {
			m := rapid.SampledFrom([]mood{refusing, silent}).Draw(t, "mood")
			w.change(func() { w.deadSet = m })
			time.Sleep(long("refuses for"))
			w.change(func() { w.deadSet = takes })
		},
		// One is to be condemned then, and one that fails cannot be parked: each rests for a
		// minute.
		"dead set that is needed": func() {
			w.put(fmt.Sprint("condemned ", len(w.messages)), temper{takes: time.Millisecond, kills: always, accused: w.limit + 1}, 0)
			w.put(fmt.Sprint("failing too ", len(w.messages)), temper{takes: time.Millisecond, fails: 1, accused: w.limit}, 0)
			w.change(func() { w.deadSet = refusing })
			time.Sleep(15 * s)
			w.change(func() { w.deadSet = takes })
			time.Sleep(time.Minute)
		},
		"nobody sees who lives": func() {
			w.change(func() { w.blind = true })
			time.Sleep(long("blind for"))
			w.change(func() { w.blind = false })
		},
		"bad deploy": func() {
			d := rapid.SampledFrom([]time.Duration{time.Millisecond, s, modelProbation + s}).Draw(t, "dies after")
			w.change(func() { w.deploy = d })
			time.Sleep(long("deployed for"))
			w.change(func() { w.deploy = 0 })
		},
		"message": func() {
			w.put(fmt.Sprint("fresh ", len(w.messages)), temper{takes: 10 * time.Millisecond}, 0)
		},
	}
}

// awaitSuspect waits until a suspect runs, and returns where; nil: none does.
func (w *crashWorld) awaitSuspect() (in *process) {
	for range 60 {
		w.change(func() {
			for _, p := range w.procs {
				if !p.gone && slices.ContainsFunc(p.calls, func(c *oneCall) bool { return c.alone }) {
					in = p
				}
			}
		})
		if in != nil {
			return in
		}
		time.Sleep(250 * time.Millisecond)
	}
	return nil
}

func TestWhateverHappensNothingIsLostAndOnlyWhatEndsTheProcessIsCondemned(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rapid.SyncTest(t, func(t *rapid.T) {
			w := drawnWorld(t)
			defer w.close()
			steps := w.steps(t)
			names := slices.Sorted(maps.Keys(steps))
			for range rapid.IntRange(1, 30).Draw(t, "steps") {
				steps[rapid.SampledFrom(names).Draw(t, "step")]()
				w.mustBeWhole(t)
			}
			w.calm()
			w.mustBeWhole(t)
		})
	})
}

// mustBeWhole fails when a promise was broken.
func (w *crashWorld) mustBeWhole(t rapid.TB) {
	t.Helper()
	w.change(func() {
		if w.wrong != "" {
			t.Log(strings.Join(w.history, "\n"))
			t.Fatalf("%s; %d deaths, limit %d", w.wrong, w.deaths, w.limit)
		}
	})
}

// The numbers are for whoever wants to see them, with -v.
func TestAKillerAmongManyIsFoundAndTheOthersDoNotWait(t *testing.T) {
	for _, killers := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			w := newCrashWorld(3, 8)
			defer w.close()
			w.wait = true
			for n := range 20 {
				w.put(fmt.Sprint("innocent ", n), temper{takes: 10 * time.Millisecond}, 0)
			}
			for n := range killers {
				w.put(fmt.Sprint("killer ", n), temper{takes: time.Millisecond, kills: always}, 0)
			}
			w.put("slow", temper{takes: 2*modelAloneFor + s}, 0)
			for range 2 {
				w.change(w.begin)
			}
			began := time.Now()
			w.calm()
			w.mustBeWhole(t)
			t.Logf("%d killers: over after %v and %d deaths, %d trials; unsuspected ones waited %v at most",
				killers, time.Since(began), w.deaths, w.trials, w.longest)
		})
	}
}
