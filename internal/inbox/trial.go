package inbox

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/task"
)

const (
	// lookAgain is how long before its end a trial looks who lives, beside the look at its end: who
	// is cut off at one of these moments, and connects again at once, is seen at the other. Who
	// dies in between is taken for alive.
	lookAgain = 5 * time.Second
	// lookTime bounds a look for one process.
	lookTime = 5 * time.Second
)

// judge is the trial of a message that processes died of. After the probation it decides whether
// the message is condemned or runs once more. The message has the token meanwhile.
func (s *suspects) judge(d delivery, e *envelope.Envelope, known suspicion) {
	stop := d.run.stop
	until := time.Now().Add(s.cfg.Probation)
	s.turn.tries(until)
	s.in.cfg.Logger.Info("a process died while a suspected message ran: it waits before it runs again, or goes to the dead set",
		"queue", d.Queue, "id", d.ID, "processes", len(known.died), "until", until)
	living := map[string]bool{s.name: true}
	again := min(lookAgain, s.cfg.Probation/2)
	for _, wait := range []time.Duration{s.cfg.Probation - again, again} {
		select {
		case <-time.After(wait):
		case <-stop.Done():
			s.turn.end()
			d.release()
			return
		}
		if err := s.look(stop, known.died, living); err != nil {
			s.in.cfg.Logger.Warn("a suspected message waits until it can be seen which processes live", "queue", d.Queue, "id", d.ID, "error", err)
			s.turn.end()
			s.postpone(d, known)
			return
		}
	}
	known.died = slices.DeleteFunc(known.died, func(name string) bool { return living[name] })
	log := s.in.cfg.Logger.With("queue", d.Queue, "id", d.ID, "deaths", len(known.died))
	switch {
	case len(known.died) <= s.cfg.Limit:
		log.Warn("the process died while a suspected message ran: it runs once more, and no other suspect beside it")
		s.passed.set(d.ID, known)
		s.turn.tries(time.Time{})
		s.announce(d, known)
	case s.row.long():
		log.Error("the process dies whichever message runs: it is not the messages, and no more of them are condemned until one comes to its end")
		known.died = nil
		s.turn.tries(time.Time{})
		s.announce(d, known)
	default:
		s.turn.end()
		s.condemn(d, e, log)
	}
}

// passed is the last trial that let its message run once more. The announced copy of that message
// may come to other processes first, and come here without a name. With as many deaths as then
// there is no second trial.
type passed struct {
	mu   sync.Mutex
	id   string // of the message
	died int    // how many deaths were held against it
}

func (p *passed) set(id string, known suspicion) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.id, p.died = id, len(known.died)
}

func (p *passed) is(id string, known suspicion) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.id == id && p.died == len(known.died)
}

// look adds those of the processes that live.
func (s *suspects) look(stop context.Context, processes []string, living map[string]bool) error {
	for _, name := range slices.Compact(slices.Sorted(slices.Values(processes))) {
		if living[name] || !isName(name) {
			continue
		}
		ctx, cancel := context.WithTimeout(stop, lookTime)
		shown, err := s.in.cfg.Presence.Shown(ctx, s.shownAs(name))
		cancel()
		if err != nil {
			return err
		}
		living[name] = shown
	}
	return nil
}

// shownAs is what the broker shows of a process that lives and has run suspects of this queue.
func (s *suspects) shownAs(name string) string { return s.in.cfg.Queue + ".process." + name }

// condemn puts a message into the dead set, uncalled. Its other copies are repeats here from then
// on: a process that dies between the confirm of a suspect's copy and the ack of what it stands for
// leaves two, and processes would die of each as often as of one.
func (s *suspects) condemn(d delivery, e *envelope.Envelope, log *slog.Logger) {
	t := s.in.memory.try(e)
	if !s.in.memory.begin(t, &d) {
		return
	}
	s.row.add(t)
	log.Error("a message killed the process each time it ran: it goes to the dead set, not called again")
	s.in.cfg.Owner.Bury(d.run.work, e, stepwell.ReasonCrashLoop, task.Killed, func(err error) {
		if err != nil {
			s.row.remove(t)
		}
		s.in.memory.end(t, err == nil)
		d.buried(err)
	})
}

// row has the messages that were condemned one after another, confirmed or on their way, since a
// suspect came to its end.
type row struct {
	mu  sync.Mutex
	all []try
}

// long says that they are so many that it is not the messages.
func (r *row) long() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.all) >= rowLimit
}

func (r *row) add(t try) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, t)
}

// remove is for one that the dead set did not take: it will be condemned again.
func (r *row) remove(t try) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = slices.DeleteFunc(r.all, func(other try) bool { return other == t })
}

func (r *row) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = nil
}
