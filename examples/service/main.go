// Command service is an actor whose handlers need a connection pool: a struct holds it, and its
// methods are the handlers. A program links the driver of its database with an import of its own.
package main

import (
	"context"
	"database/sql"
	"os"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
)

type Order struct{ ID string }

type service struct{ db *sql.DB }

func (s *service) start(ctx context.Context, env *actor.Env) (err error) {
	s.db, err = sql.Open("pgx", os.Getenv("DATABASE_URL"))
	return err
}

func (s *service) stop(context.Context) error { return s.db.Close() }

func (s *service) charge(ctx context.Context, o Order, m *stepwell.Message) error {
	_, err := s.db.ExecContext(ctx, "insert into charges values ($1, $2, $3) on conflict (stream, message_id) do nothing", m.Stream, m.ID, o.ID)
	return err
}

func main() {
	s := &service{}
	actor.Main(actor.App{
		Name:    "shipping",
		Start:   s.start,
		Stop:    s.stop,
		Streams: actor.Streams{"orders": {Handler: stepwell.JSON(s.charge)}},
	})
}
