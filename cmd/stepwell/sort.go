package main

import (
	"context"
	"errors"
	"fmt"
)

// sorting says which dead set to sort, and how.
type sorting struct {
	Stream  string  `help:"The stream-id." required:"" short:"s"`
	Channel *string `help:"One of the stream's channels; default: the stream itself." short:"c"`
	Rate    *string `help:"How fast: messages a second or a minute, such as 2000/s."`
	Note    *string `help:"A note for who looks at the operation."`
	Detach  bool    `help:"Do not watch the operation."`
}

// sorts is stepwell dead-set sort.
type sorts struct {
	sorting
	Force bool `help:"Sort though other processes handle these messages. One of a release that knows no pages would show, replay and delete only what arrives from now on."`
}

// unsort is stepwell dead-set unsort.
type unsort struct{ sorting }

// Validate is called by kong before Run.
func (c sorting) Validate() error {
	if c.Stream == "" {
		return errNoStream
	}
	for name, text := range map[string]*string{"channel": c.Channel, "rate": c.Rate, "note": c.Note} {
		if text != nil && *text == "" {
			return empty(name)
		}
	}
	return nil
}

// Run sorts. It asks nobody: each message stays in its dead set, in its order.
func (c *sorts) Run(ctx context.Context, a *actor) error {
	w := c.wish("sort")
	w.Force = c.Force
	return c.begin(ctx, a, w)
}

// Run moves all back.
func (c *unsort) Run(ctx context.Context, a *actor) error { return c.begin(ctx, a, c.wish("unsort")) }

func (c sorting) wish(action string) wish {
	return wish{Action: action, Stream: c.Stream, Channel: c.Channel, Rate: c.Rate, Note: c.Note}
}

// begin lets the actor begin, and watches.
func (c sorting) begin(ctx context.Context, a *actor, w wish) error {
	o, begun, err := a.begin(ctx, w)
	if err != nil {
		return err
	}
	if !c.Detach {
		return a.follow(ctx, o.ID)
	}
	return a.printOperation(o, begun)
}

// looking is for commands that look at a dead set.
type looking struct {
	Sort bool `help:"Sort what has arrived into pages first, where it is more than one look sees. Asked about at a terminal."`
}

// look looks. Where not all was seen, and somebody wants that, it sorts and looks again. unsorted
// is why that failed: then the first look stands, and is to be printed before that is returned.
func (l looking) look(ctx context.Context, a *actor, of chosen, look func() (span, error)) (unsorted, err error) {
	seen, err := look()
	if err != nil || seen.Unsorted == 0 {
		return nil, err
	}
	if !l.Sort {
		if a.ask == nil || a.json {
			return nil, nil
		}
		err := a.ask(fmt.Sprintf("The oldest %d of %d dead messages were looked at. Sort the others into pages, and look at all?", seen.Depth-seen.Unsorted, seen.Depth))
		if errors.Is(err, errNo) || errors.Is(err, errUnasked) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
	}
	to := *a
	to.out, to.json = a.errs, false // the answer is what was asked for
	s := sorting{Stream: of.Stream, Channel: of.Channel}
	if err := s.begin(ctx, &to, s.wish("sort")); err != nil {
		return fmt.Errorf("the others were not sorted: %w", err), nil
	}
	_, err = look()
	return nil, err
}
