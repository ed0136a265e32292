package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stepwell/stepwell/internal/operations"
)

// wishes answers those who ask for operations, look at them, and change them.
type wishes struct{ requests }

// changeWait is how long a change waits for the end of a turn: two seconds, or ten where a broker
// confirms nothing.
const changeWait = 15 * time.Second

// goneForGood is what a delete says where nothing keeps what is deleted.
const goneForGood = "what is deleted is gone for good"

// asked is the answer to who asks for an operation.
type asked struct {
	operations.Operation
	Message string `json:"message"`
}

// sampled is the answer to a dry run.
type sampled struct {
	DryRun bool   `json:"dry_run"`
	Action string `json:"action"`
	operations.Target
	Select operations.Selection `json:"select"`
	Before time.Time            `json:"before"`
	operations.Sample
	// Seconds is how long it takes at its rate; absent without one.
	Seconds *float64 `json:"seconds,omitempty"`
	Message string   `json:"message"`
}

// runner is who runs operations.
func (s wishes) runner() (Operations, error) {
	if s.cfg.Operations == nil {
		return nil, &problem{status: http.StatusNotFound, detail: "no operations are run here"}
	}
	return s.cfg.Operations, nil
}

// ask begins an operation, or counts what it would act on.
func (s wishes) ask(w http.ResponseWriter, r *http.Request) error {
	runner, err := s.runner()
	if err != nil {
		return err
	}
	asks, err := s.readWish(w, r)
	if err != nil {
		return err
	}
	if asks.dryRun {
		return s.sample(w, r, runner, asks)
	}
	o, known, err := runner.Ask(r.Context(), asks.request, asks.rate, asks.key)
	s.audit(r, "audit: operation asked for", err, append(asks.attrs(), slog.String("operation", o.ID))...)
	if err != nil {
		return err
	}
	status, message := http.StatusAccepted, fmt.Sprintf("%s of %s is %s", o.Action, asks.who(), o.Phase)
	if known {
		status, message = http.StatusOK, message+": it was asked for before, with this Idempotency-Key"
	}
	message += s.becomes(&asks, o.ID)
	if o.Alone != "" {
		message += "; it lives in this process alone, and ends with it: " + o.Alone
	}
	w.Header().Set("Location", "/v1/dead_set/operations/"+o.ID)
	return writeJSON(w, status, jsonType, asked{s.shown(r, o), message})
}

// sample answers a dry run.
func (s wishes) sample(w http.ResponseWriter, r *http.Request, runner Operations, asks wish) error {
	found, err := patiently(r.Context(), s.cfg, func(ctx context.Context) (operations.Sample, error) { return runner.Sample(ctx, asks.request) })
	if err != nil {
		return err
	}
	found.Groups, found.Samples = s.veilAll(r, found.Groups), s.veilAll(r, found.Samples)
	answer := sampled{
		DryRun: true, Action: asks.request.Action, Target: asks.request.Target, Select: asks.request.Select, Before: asks.request.Before, Sample: found,
		Message: fmt.Sprintf("%s would act on %d messages of %s; nothing was changed", asks.request.Action, found.Matched, asks.who()),
	}
	if answer.Message += s.becomes(&asks, ""); found.Nothing != "" {
		answer.Message = found.Nothing
	}
	if found.Room != nil {
		answer.Message += fmt.Sprintf(", which has room for about %d", *found.Room)
	}
	if per := asks.rate.Per; per > 0 {
		seconds := per.Seconds() * float64(found.Matched) / float64(asks.rate.Messages)
		answer.Seconds = &seconds
	}
	writeWithin(w, s.cfg.WriteTimeout) // anew: the look may have used up the first
	return writeJSON(w, http.StatusOK, jsonType, answer)
}

// show shows one operation.
func (s wishes) show(w http.ResponseWriter, r *http.Request) error {
	runner, err := s.runner()
	if err != nil {
		return err
	}
	o, err := runner.Find(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, jsonType, s.shown(r, o))
}

// phases are the states that there are.
func phases() []operations.Phase {
	return []operations.Phase{
		operations.Queued, operations.Running, operations.Paused, operations.Done, operations.Cancelled, operations.Refused, operations.Failed,
	}
}

// list shows operations, the newest first.
func (s wishes) list(w http.ResponseWriter, r *http.Request) error {
	runner, err := s.runner()
	if err != nil {
		return err
	}
	given, err := s.arguments(w, r, []string{streamName, stateName, byName, limitName}, nil)
	if err != nil {
		return err
	}
	limit, wrong := s.listed(given)
	if wrong != nil {
		return mistake("%s", strings.Join(wrong, "; "))
	}
	all, err := runner.List(r.Context())
	if err != nil {
		return err
	}
	answer := struct {
		Operations []operations.Operation `json:"operations"`
	}{[]operations.Operation{}}
	is := func(name, text string) bool { return given[name] == "" || given[name] == text }
	for _, o := range all {
		if len(answer.Operations) < limit && is(streamName, o.Stream) && is(stateName, string(o.Phase)) && is(byName, o.By) {
			answer.Operations = append(answer.Operations, s.shown(r, o))
		}
	}
	return writeJSON(w, http.StatusOK, jsonType, answer)
}

// The names of parameters that say which operations to list.
const (
	stateName = "state"
	byName    = "by"
)

// listed reads which operations to list, and finds what is wrong with that.
func (s wishes) listed(given map[string]string) (limit int, wrong []string) {
	limit = defaultLimit
	for _, name := range slices.Sorted(maps.Keys(given)) {
		text := given[name]
		switch {
		case name == limitName:
			var err error
			if limit, err = upTo(maxLimit, limitName, text); err != nil {
				wrong = append(wrong, err.Error())
			}
		case name == stateName && !slices.Contains(phases(), operations.Phase(text)):
			wrong = append(wrong, fmt.Sprintf("state must be one of %v, not %q", phases(), clip(text)))
		case name == streamName && s.cfg.Streams[text].Control == nil:
			wrong = append(wrong, s.unknownStream(text))
		}
	}
	return limit, wrong
}

// change pauses, resumes, cancels an operation, or gives it another rate.
func (s wishes) change(w http.ResponseWriter, r *http.Request) error {
	runner, err := s.runner()
	if err != nil {
		return err
	}
	c, err := s.readChange(w, r)
	if err != nil {
		return err
	}
	id := r.PathValue("id")
	ctx, cancel := context.WithTimeout(r.Context(), changeWait)
	defer cancel()
	o, err := runner.Change(ctx, id, c)
	attrs := []slog.Attr{slog.String("operation", clip(id)), slog.String("wish", string(c.Phase))}
	if c.Rate != nil {
		attrs = append(attrs, slog.String("rate", c.Rate.String()))
	}
	s.audit(r, tried(err, "audit: operation changed", "audit: operation change failed"), err, attrs...)
	if errors.Is(err, operations.ErrOver) {
		return &problem{status: http.StatusConflict, detail: operations.ErrOver.Error() + ": nothing of it can be changed"}
	}
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, jsonType, s.shown(r, o))
}
