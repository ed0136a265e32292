// Command bulk writes orders into a database: one by one, and hundreds in a transaction. It is a
// module of its own, so that nobody who uses stepwell has its driver.
package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"

	_ "modernc.org/sqlite"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/actor"
)

// Order is what the topic has.
type Order struct {
	ID    string
	Total int
}

type store struct{ db *sql.DB }

// open makes the table. Its key is the message's stream and ID: what is handled twice is there
// once, and the same record is another message in another stream.
func open(ctx context.Context, file string) (*store, error) {
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)&_pragma=synchronous(full)&_txlock=immediate")
	if err != nil {
		return nil, err
	}
	_, err = db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS orders (stream TEXT, message TEXT, id TEXT NOT NULL, total INTEGER NOT NULL CHECK (total >= 0), PRIMARY KEY (stream, message))`)
	if err != nil {
		return nil, fmt.Errorf("make the table: %w", err)
	}
	return &store{db}, nil
}

const insert = `INSERT INTO orders (stream, message, id, total) VALUES (?, ?, ?, ?) ON CONFLICT (stream, message) DO NOTHING`

// one writes one order: a transaction, and a sync of the disk, for each.
func (s *store) one(ctx context.Context, o Order, m *stepwell.Message) error {
	_, err := s.db.ExecContext(ctx, insert, m.Stream, m.ID, o.ID, o.Total)
	return err
}

// many writes all orders of a batch in one transaction. An order that the table does not take goes
// its own way, and leaves its neighbours alone; where the transaction fails as a whole, none is
// there, and the error counts for all.
func (s *store) many(ctx context.Context, orders []Order, b *stepwell.Batch) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	statement, err := tx.PrepareContext(ctx, insert)
	if err != nil {
		return err
	}
	defer statement.Close()
	for i, o := range orders {
		m := b.Messages()[i]
		switch _, err := statement.ExecContext(ctx, m.Stream, m.ID, o.ID, o.Total); {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			b.Fail(m, err)
		}
	}
	return tx.Commit()
}

func (s *store) streams() actor.Streams {
	return actor.Streams{
		"orders": {Batch: stepwell.JSONBatch(s.many)},
	}
}

// oneByOne does the same with a call and a transaction for each order.
func (s *store) oneByOne() actor.Streams {
	return actor.Streams{
		"orders": {Handler: stepwell.JSON(s.one)},
	}
}

func main() {
	s, err := open(context.Background(), "orders.db")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	streams := s.streams()
	if os.Getenv("ONE_BY_ONE") != "" {
		streams = s.oneByOne()
	}
	actor.Main(actor.App{Name: "bulk", Streams: streams})
}
