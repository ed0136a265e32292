package actor_test

import (
	"context"
	"fmt"
	"math/rand"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
	"github.com/stepwell/stepwell/config"
)

// Where a message is: in its stream, or in the stream's channel.
const (
	inStream = iota
	inChannel
)

var places = [2]string{"the stream", "the channel"}

// word is what a handler says of a message; wait is what it asks for.
type word struct {
	kind string
	wait time.Duration
}

// verdict is the word as a handler returns it.
func (w word) verdict() error {
	switch w.kind {
	case "fails":
		return errFlaky
	case "panics":
		panic(errFlaky)
	case "asks":
		return stepwell.RetryAfter(errFlaky, w.wait)
	case "snoozes":
		return stepwell.Snooze(w.wait)
	case "dies":
		return stepwell.DeadLetter(errFlaky)
	case "hands over":
		return stepwell.To("slow")
	case "skips":
		return stepwell.Skip("it is not for us")
	}
	return nil
}

// script is what a handler says at each call, and at the last that it works.
func script(r *rand.Rand, where int) (words []word) {
	for range 8 {
		w := word{kind: "works", wait: time.Duration(r.Intn(600_000)) * time.Millisecond}
		switch n := r.Intn(20); {
		case n < 7:
			w.kind = "fails"
		case n < 10:
			w.kind = "asks"
		case n < 13:
			w.kind = "snoozes"
		case n < 14:
			w.kind = "dies"
		case n < 15 && where == inStream:
			w.kind = "hands over"
		case n < 16:
			w.kind = "skips"
		case n < 17:
			w.kind = "panics"
		}
		if r.Intn(40) == 0 {
			w.wait += 50 * time.Minute // beyond what may rest in place
		}
		words = append(words, w)
	}
	return append(words, word{kind: "works"})
}

// tale is one message: what is said of it, and what the model knows of it so far.
type tale struct {
	key       []byte
	script    [2][]word
	takesOver [2]bool // OnDead takes it over

	where, attempt, snoozes int
	due                     time.Time     // it is called no earlier
	rested                  time.Duration // at most, since it was read
	start                   int           // of the actor that called it last
	reason                  string        // of its death
	end                     string        // empty: it is still to be called
	stored                  []string      // the dead sets and channels that have confirmed it
	calls                   []string
}

// asked is the end of a message that OnDead is to be asked for.
const asked = "asked"

func (o *tale) open() bool { return o.end == "" || o.end == asked }

// verdictModel knows of each message of a run which call comes next, and where it ends.
type verdictModel struct {
	t *testing.T
	plan
	mu     sync.Mutex
	tales  []*tale
	starts []time.Time // of the actor
}

func newVerdictModel(t *testing.T, r *rand.Rand, messages int) *verdictModel {
	v := &verdictModel{t: t, plan: newPlan(r)}
	for range messages {
		o := &tale{attempt: 1, script: [2][]word{script(r, inStream), script(r, inChannel)}, takesOver: [2]bool{r.Intn(2) == 0, r.Intn(2) == 0}}
		if k := r.Intn(6); k > 0 {
			o.key = []byte{byte('a' + k)}
		}
		v.tales = append(v.tales, o)
	}
	return v
}

// wrong fails the test with what happened to the messages.
func (v *verdictModel) wrong(format string, args []any, of ...int) {
	v.t.Helper()
	var story strings.Builder
	for _, i := range of {
		o := v.tales[i]
		fmt.Fprintf(&story, "\nmessage %d, key %q, stored in %v, end %q: %s", i, o.key, o.stored, o.end, strings.Join(o.calls, ", "))
	}
	story.WriteString("\nthe actor starts at")
	for _, at := range v.starts {
		story.WriteString(at.Format(" 15:04:05"))
	}
	v.t.Errorf("%s: %s%s\n%s", v.t.Name(), fmt.Sprintf(format, args...), &story, v.plan)
}

// called checks a call and returns what the handler says. beside are the messages of its batch.
func (v *verdictModel) called(m *stepwell.Message, where int, beside []int) word {
	i, _ := strconv.Atoi(string(m.Value))
	o, now := v.tales[i], time.Now()
	o.calls = append(o.calls, fmt.Sprintf("%s attempt %d after %d snoozes in %s:", now.Format("15:04:05.000"), m.Attempt, m.Snoozes, places[where]))
	if o.start != len(v.starts) && v.mayRest() && m.Attempt == 1 && m.Snoozes == 0 && where == inStream {
		// What rests in place when the actor stops is read again, with a new budget.
		o.attempt, o.snoozes, o.due, o.rested = 1, 0, time.Time{}, 0
	}
	o.start = len(v.starts)
	if !o.open() || o.end == asked {
		v.wrong("message %d is called after its end", []any{i}, i)
	}
	if where != o.where || m.Attempt != o.attempt || m.Snoozes != o.snoozes {
		v.wrong("message %d is called in %s as attempt %d after %d snoozes, not in %s as attempt %d after %d",
			[]any{i, places[where], m.Attempt, m.Snoozes, places[o.where], o.attempt, o.snoozes}, i)
	}
	if now.Before(o.due) {
		v.wrong("message %d is called %v too early", []any{i, o.due.Sub(now)}, i)
	}
	v.inOrder(i, beside)
	said := o.script[where][0]
	if len(o.script[where]) > 1 {
		o.script[where] = o.script[where][1:]
	}
	o.calls[len(o.calls)-1] += " " + said.kind
	v.follow(o, said)
	m.ID, m.Attempt = "the handler's own", 77
	return said
}

// inOrder checks that nothing of the message's key that came before it is still to be called, or on
// its way to where it ends. A batch has several messages of a key; what rested beyond the hour in
// place, or came from a queue, has no place in the order.
func (v *verdictModel) inOrder(i int, beside []int) {
	o := v.tales[i]
	if o.key == nil || !v.keepsOrder() || o.where != inStream || o.rested > config.MostRest {
		return
	}
	for j, before := range v.tales[:i] {
		if string(before.key) != string(o.key) || before.rested > config.MostRest || slices.Contains(beside, j) {
			continue
		}
		leaves := before.where == inChannel || before.reason != "" && before.end != "taken over"
		if before.where == inStream && before.open() || v.retries && leaves && len(before.stored) == 0 {
			v.wrong("message %d is called before %d of its key is where it ends", []any{i, j}, i, j)
		}
	}
}

// follow is what becomes of a message after a word.
func (v *verdictModel) follow(o *tale, said word) {
	wait, shorter := time.Duration(0), time.Duration(0)
	switch said.kind {
	case "works", "skips":
		o.end = said.kind
	case "hands over":
		o.where, o.attempt, o.snoozes = inChannel, 1, 0
	case "snoozes":
		wait = max(stepwell.ShortestSnooze, said.wait)
		o.snoozes++
	default:
		held := o.where == inStream && !v.retries
		if budget := v.waits[o.where]; !held {
			switch {
			case said.kind == "dies":
				o.reason = stepwell.ReasonDeadLetter
			case o.attempt > len(budget):
				o.reason = stepwell.ReasonExhausted
			default:
				wait = budget[o.attempt-1]
			}
		}
		if o.reason != "" {
			o.end = "dead"
			if v.asksOnDead(o.where) {
				o.end = asked
			}
			return
		}
		o.attempt++
		switch {
		case said.kind == "asks" && said.wait > 0:
			wait = said.wait
		case v.jitter && !held:
			shorter = wait / 2
		}
	}
	o.rested += wait
	o.due = time.Now().Add(wait - shorter)
}

// handler is that of the stream or of its channel.
func (v *verdictModel) handler(where int) stepwell.Handler {
	return func(_ context.Context, m *stepwell.Message) error {
		return v.says(m, where).verdict()
	}
}

func (v *verdictModel) says(m *stepwell.Message, where int) word {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.called(m, where, nil)
}

// batch says of each message what its script has. Where the first fails or panics, so does the
// whole batch, and what works in it is marked.
func (v *verdictModel) batch(_ context.Context, b *stepwell.Batch) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	var beside []int
	for _, m := range b.Messages() {
		i, _ := strconv.Atoi(string(m.Value))
		beside = append(beside, i)
	}
	var first word
	for i, m := range b.Messages() {
		said := v.called(m, inStream, beside)
		if i == 0 {
			first = said
		}
		whole := first.kind == "fails" || first.kind == "panics"
		switch fails := said.kind == "fails" || said.kind == "panics"; {
		case fails && !whole:
			b.Fail(m, errFlaky)
		case said.kind == "works" && whole:
			b.Done(m)
		case !fails && said.kind != "works":
			b.Fail(m, said.verdict())
		}
	}
	if first.kind == "fails" || first.kind == "panics" {
		return first.verdict()
	}
	return nil
}

// onDead takes some messages over, and of the others says what has to leave them where they go.
func (v *verdictModel) onDead(where int) func(context.Context, *stepwell.Message, error) error {
	if !v.asksOnDead(where) {
		return nil
	}
	return func(_ context.Context, m *stepwell.Message, err error) error {
		v.mu.Lock()
		defer v.mu.Unlock()
		i, _ := strconv.Atoi(string(m.Value))
		o := v.tales[i]
		if o.end != asked || m.Attempt != o.attempt {
			v.wrong("OnDead is asked for message %d, attempt %d, not %d", []any{i, m.Attempt, o.attempt}, i)
		}
		if o.takesOver[where] {
			o.end = "taken over"
			return nil
		}
		o.end = "dead"
		switch i % 4 {
		case 0:
			return stepwell.Skip("it is not for us")
		case 1:
			panic(err)
		case 2:
			return stepwell.To("slow")
		}
		return stepwell.Snooze(time.Hour)
	}
}

// stream is the stream whose handlers ask the model.
func (v *verdictModel) stream() actor.Stream {
	s := actor.Stream{OnDead: v.onDead(inStream), Channels: actor.Channels{"slow": {Handler: v.handler(inChannel), OnDead: v.onDead(inChannel)}}}
	if v.batches {
		s.Batch = v.batch
	} else {
		s.Handler = v.handler(inStream)
	}
	return s
}

// left are the messages that are still to be called.
func (v *verdictModel) left() (open []int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for i, o := range v.tales {
		if o.open() {
			open = append(open, i)
		}
	}
	return open
}
