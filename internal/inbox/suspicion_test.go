package inbox_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/internal/inbox"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/task"
)

// story is what becomes of a message: each copy of it that is published as a suspect's, with the
// processes that died and, after a stroke, the one that runs it; and each call.
type story struct {
	mu   sync.Mutex
	told []string
}

func (s *story) tell(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = append(s.told, what)
}

// sofar is what was told until now.
func (s *story) sofar() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.told)
}

func (s *story) succeeding(context.Context, *stepwell.Message, inbox.Ticket) task.Outcome {
	s.tell("called")
	return task.Settled
}

// watched makes an Inbox whose copies of suspects are told of.
func (w *world) watched() *story {
	w.t.Helper()
	told := &story{}
	w.refuses(func(m queue.Message) bool {
		if died, suspect := m.Headers["x-stepwell-suspect"].(string); suspect {
			told.tell(died + "/" + m.Headers["x-stepwell-suspect-by"].(string))
		}
		return false
	})
	return told
}

// givenBack has the broker count so many returns of the message that waits in the queue.
func (w *world) givenBack(times int) {
	w.t.Helper()
	ctx, end := context.WithCancel(w.t.Context())
	if times == 0 {
		end()
	}
	_ = w.broker.Consume(ctx, ctx, queue.Consumption{Queue: w.cfg.Queue, Handle: func(context.Context, queue.Delivery) bool {
		if times--; times == 0 {
			end()
		}
		return false
	}})
}

// The process is 00000007 in all of them. It lives for an hour, which is longer than a probation.
func TestWhatADeliveryThatCameBackSaysOfDeathsAndWhatBecomesOfIt(t *testing.T) {
	suspect := func(died, by string) map[string]any {
		return map[string]any{"x-stepwell-suspect": died, "x-stepwell-suspect-by": by}
	}
	for name, test := range map[string]struct {
		limit     int
		headers   map[string]any
		givenBack int
		want      []string
	}{
		"ten returns are no suspicion":                    {2, nil, 10, []string{"called"}},
		"eleven are, and it is announced before its call": {2, nil, 11, []string{"/", "/00000007", "called"}},
		"a suspect that nobody announced tells of none":   {2, suspect("", ""), 11, []string{"/00000007", "called"}},
		"the process it names died":                       {2, suspect("", "00000008"), 1, []string{"00000008/00000007", "called"}},
		"that one died before others had the copy":        {2, suspect("", "00000008+5"), 1, []string{"00000008/00000007", "called"}},
		"it names this one, which lives":                  {2, suspect("", "00000007"), 1, []string{"called"}},
		"another gets what names it, for a while":         {2, suspect("", "00000008+63"), 0, []string{"/00000008+64", "/", "/00000007", "called"}},
		"and is not waited for any longer":                {2, suspect("", "00000008+64"), 0, []string{"/", "/00000007", "called"}},
		"deaths up to the limit stay on it":               {2, suspect("00000008,00000009", ""), 0, []string{"00000008,00000009/00000007", "called"}},
		"one more condemns it":                            {2, suspect("00000008,00000009", "0000000a"), 1, []string{"dead"}},
		"and so it does when it came here without a name": {2, suspect("00000008,00000009,0000000a", ""), 0, []string{"dead"}},
		"a comma too many is no death":                    {2, suspect(",00000008,00000009,", ""), 0, []string{"00000008,00000009/00000007", "called"}},
		"a header that is no text is none":                {2, map[string]any{"x-stepwell-suspect": int64(3)}, 1, []string{"called"}},
		"whoever is named of no suspect did not die":      {2, map[string]any{"x-stepwell-suspect-by": "00000008"}, 1, []string{"called"}},
		"no limit: ten returns":                           {0, nil, 10, []string{"called"}},
		"no limit: eleven, and the count begins anew":     {0, nil, 11, []string{"/", "called"}},
		"no limit: deaths are held against nobody":        {0, suspect("00000008,00000009,0000000a", "0000000b"), 1, []string{"called"}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, s, func(w *world) {
				w.cfg.Suspects = inbox.Suspects{Wait: w.cfg.Wait, Limit: test.limit, Process: 7}
				told := w.watched()
				m := unsuspected("x")
				for key, value := range test.headers {
					m.Headers[key] = value
				}
				w.put(w.cfg.Queue, m)
				w.givenBack(test.givenBack)
				r := w.start(told.succeeding)
				time.Sleep(time.Hour)
				r.end()
				got := append(told.sofar(), slices.Repeat([]string{"dead"}, len(w.dead()))...)
				if !slices.Equal(got, test.want) {
					t.Errorf("it went %s, want %s", strings.Join(got, " "), strings.Join(test.want, " "))
				}
				w.empty()
			})
		})
	}
}
