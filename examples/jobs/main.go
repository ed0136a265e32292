// Command jobs writes to new customers: a welcome now, a reminder in three days. Whoever signs up
// is answered once both mails are stored, and they are sent, tried again and dead as any message
// is. It needs RabbitMQ alone.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
)

// Mail is a job.
type Mail struct{ To, Template string }

type service struct {
	env      *actor.Env
	reminder time.Duration
	send     func(ctx context.Context, id string, m Mail) error
}

func (s *service) start(_ context.Context, env *actor.Env) error {
	s.env = env
	return nil
}

// enqueue returns nil when the mail is safe. Its ID is the same for the same mail: whoever signs up
// twice, since the answer got lost, enqueues it twice, and the mail server can tell.
func (s *service) enqueue(ctx context.Context, m Mail, after time.Duration) error {
	value, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return s.env.Enqueue(ctx, "mails", stepwell.Message{ID: m.Template + ":" + m.To, Value: value}, after)
}

// ServeHTTP signs a customer up. An error means that a mail may be stored, or may not: try again.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 10*time.Second)
	defer cancel()
	to := r.FormValue("mail")
	err := s.enqueue(ctx, Mail{to, "welcome"}, 0)
	if err == nil {
		err = s.enqueue(ctx, Mail{to, "reminder"}, s.reminder)
	}
	switch {
	case errors.Is(err, actor.ErrRefused):
		http.Error(w, err.Error(), http.StatusBadRequest)
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	default:
		w.WriteHeader(http.StatusAccepted)
	}
}

func (s *service) mail(ctx context.Context, m Mail, job *stepwell.Message) error {
	return s.send(ctx, job.ID, m)
}

func (s *service) app() actor.App {
	return actor.App{
		Name:  "signup",
		Start: s.start,
		HTTP:  s,
		Streams: actor.Streams{
			"mails": {Enqueued: true, Handler: stepwell.JSON(s.mail)},
		},
	}
}

func main() {
	s := &service{reminder: 3 * 24 * time.Hour, send: func(_ context.Context, id string, m Mail) error {
		slog.Info("here a mail would be sent", "id", id, "to", m.To, "template", m.Template)
		return nil
	}}
	actor.Main(s.app())
}
