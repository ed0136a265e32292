package inbox

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/envelope"
)

// judge is the trial of a message that processes died of. After the probation it decides whether
// the message is condemned or runs once more. The message has the token meanwhile.
func (s *suspects) judge(d delivery, e *envelope.Envelope, known suspicion) {
	stop := d.run.stop
	select {
	case <-time.After(s.cfg.Probation):
	case <-stop.Done():
		s.turn.end()
		d.release()
		return
	}
	living, err := s.cfg.Living(stop)
	if err != nil {
		s.in.cfg.Logger.Warn("a suspected message waits until it can be seen which processes live", "queue", d.Queue, "id", d.ID, "error", err)
		s.turn.end()
		s.postpone(d, known)
		return
	}
	known.died = slices.DeleteFunc(slices.Clone(s.learn(e, known.died)), func(name string) bool { return lives(living, name) })
	log := s.in.cfg.Logger.With("queue", d.Queue, "id", d.ID, "deaths", len(known.died))
	switch {
	case len(known.died) <= s.cfg.Limit:
		log.Warn("the process died while a suspected message ran: it runs once more, and no other suspect beside it")
		s.tried.set(d.ID, known)
		s.announce(d, e, known)
	case s.row.Load() >= rowLimit:
		log.Error("the process dies whichever message runs: it is not the messages, and no more of them are condemned until one comes to its end")
		known.died = nil
		s.announce(d, e, known)
	default:
		log.Error("a message killed the process each time it ran: it goes to the dead set, not called again")
		s.turn.end()
		s.condemn(d, e)
	}
}

// trial is the last trial that let its message run once more. The announced copy of that message
// may come to other processes first, and come here without a name. With as many deaths as then
// there is no second trial.
type trial struct {
	mu   sync.Mutex
	id   string // of the message
	died int    // how many deaths were held against it
}

func (t *trial) set(id string, known suspicion) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.id, t.died = id, len(known.died)
}

func (t *trial) is(id string, known suspicion) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.id == id && t.died == len(known.died)
}

// learn adds what other copies of the message told of deaths to what this one tells.
func (s *suspects) learn(e *envelope.Envelope, died []string) []string {
	t := s.in.memory.try(e)
	died = union(s.deaths.get(t), died)
	died = died[max(0, len(died)-s.cfg.Limit-1):]
	s.deaths.set(t, died)
	return died
}

// union is a, without what b has, and b.
func union(a, b []string) []string {
	a = slices.DeleteFunc(slices.Clone(a), func(name string) bool { return slices.Contains(b, name) })
	return append(a, b...)
}

// mostDeaths is of how many messages the deaths are known.
const mostDeaths = 1000

// deaths are the processes that died while a message ran, as its copies told that came here. A
// process that dies between the confirm of a suspect's copy and the ack of what that stands for
// leaves two of it, which go their own ways: without this, processes would die of each as often as
// of one.
type deaths struct {
	mu sync.Mutex
	of map[try][]string
	// order has the keys of it, the oldest first.
	order []try
}

func (k *deaths) get(t try) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.of[t]
}

func (k *deaths) set(t try, died []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, is := k.of[t]; !is {
		if len(died) == 0 {
			return
		}
		if len(k.order) == mostDeaths {
			delete(k.of, k.order[0])
			k.order = k.order[1:]
		}
		k.order = append(k.order, t)
	}
	if k.of == nil {
		k.of = map[try][]string{}
	}
	k.of[t] = died
}

func lives(living map[uint32]bool, name string) bool {
	process, err := strconv.ParseUint(name, 16, 32)
	return err == nil && living[uint32(process)]
}

// condemn puts a message into the dead set, uncalled. Its other copies are repeats from then on:
// they are acked here, and not condemned a second time.
func (s *suspects) condemn(d delivery, e *envelope.Envelope) {
	text := fmt.Sprintf("the process died more than %d times while the message ran", s.cfg.Limit)
	t := s.in.memory.try(e)
	s.in.cfg.Owner.Bury(d.run.work, e, stepwell.ReasonCrashLoop, text, func(err error) {
		if err == nil {
			s.row.Add(1)
			s.in.memory.end(t, true)
		}
		d.buried(err)
	})
}
