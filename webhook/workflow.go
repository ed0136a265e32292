package webhook

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// Workflow is waits with a name. One that is configured can be changed in the configuration alone.
type Workflow struct {
	Name       string
	Waits      []time.Duration
	Configured bool
}

// workflow answers POST /retry_workflow of the REST retrier, with what was stored.
func (s *Server) workflow(w http.ResponseWriter, r *http.Request) error {
	body, err := s.body(w, r)
	if err != nil {
		return err
	}
	p := s.handler.parser()
	name, delays := p.retryWorkflow(body)
	if err := p.problem(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), acceptTimeout)
	defer cancel()
	if err := s.handler.cfg.Records.SetWorkflow(ctx, name, delays); err != nil {
		return s.notStored(err)
	}
	return writeJSON(w, http.StatusOK, Workflow{Name: name, Waits: delays}.answer())
}

// workflows answers GET /retry_workflow.
func (s *Server) workflows(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), acceptTimeout)
	defer cancel()
	all, err := s.handler.cfg.Records.Workflows(ctx)
	if err != nil {
		return unavailable(err)
	}
	answers := make([]workflowAnswer, 0, len(all))
	for _, one := range all {
		answers = append(answers, one.answer())
	}
	return writeJSON(w, http.StatusOK, map[string]any{"workflows": answers})
}

// deleteWorkflow answers DELETE /retry_workflow/{name}. Calls that were accepted have their waits.
func (s *Server) deleteWorkflow(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	ctx, cancel := context.WithTimeout(r.Context(), acceptTimeout)
	defer cancel()
	found, err := s.handler.cfg.Records.DeleteWorkflow(ctx, name)
	switch {
	case err != nil:
		return s.notStored(err)
	case !found:
		return &problem{status: http.StatusNotFound, detail: fmt.Sprintf("workflow %q is not there; GET /retry_workflow lists those that are", clip(name))}
	}
	return writeJSON(w, http.StatusOK, map[string]any{"name": name, "deleted": true})
}

// workflowAnswer is a workflow in an answer: its waits are in milliseconds, as they came.
type workflowAnswer struct {
	Name       string  `json:"name"`
	Delays     []int64 `json:"retry_delays"`
	Configured bool    `json:"configured,omitempty"`
}

func (w Workflow) answer() workflowAnswer {
	a := workflowAnswer{Name: w.Name, Delays: make([]int64, 0, len(w.Waits)), Configured: w.Configured}
	for _, d := range w.Waits {
		a.Delays = append(a.Delays, d.Milliseconds())
	}
	return a
}
