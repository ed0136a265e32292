package main

import (
	"context"
	"errors"
	"sync"

	"github.com/stepwell/stepwell"
)

type order struct {
	ID string
}

// errRefused is what no further try can change.
var errRefused = errors.New("refused")

// bank stands for what the program works with: a client of somebody's API.
type bank struct {
	// fails says how a call of that name ends; nil: all of them work.
	fails func(call string) error

	mu   sync.Mutex
	done []string // guarded by mu
}

// charge would hand m.ID to the bank as its idempotency key: a message may come twice.
func (b *bank) charge(_ context.Context, o order, _ *stepwell.Message) error {
	return b.do("charge " + o.ID)
}

func (b *bank) refund(_ context.Context, o order, _ *stepwell.Message) error {
	return b.do("refund " + o.ID)
}

func (b *bank) do(call string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.done = append(b.done, call)
	if b.fails == nil {
		return nil
	}
	return b.fails(call)
}
