package actor

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stepwell/stepwell/internal/spelling"
	"github.com/stepwell/stepwell/retry"
)

// direct says why a message cannot be handed over to a channel; nil: it can.
func (c lineConfig) direct(channel string) error {
	switch _, known := c.others[channel]; {
	case known:
		return nil
	case c.channel != "":
		return fmt.Errorf("its message is in channel %q, and a channel hands over to none", c.channel)
	case len(c.others) == 0:
		return fmt.Errorf("stream %q has no channels", c.id)
	}
	all := slices.Sorted(maps.Keys(c.others))
	return fmt.Errorf("stream %q has no such channel; its channels are: %s%s", c.id, strings.Join(all, ", "), spelling.Meant(channel, all))
}

// newChannels makes the lines of a stream's channels, by name, and what hands messages over to
// each.
func newChannels(a *Actor, of lineConfig, channels Channels) (lines []*line, to map[string]*retry.Retrier, err error) {
	to = make(map[string]*retry.Retrier, len(channels))
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(channels)) {
		c := of
		// A channel has the stream's settings where it has none of its own, and messages one by
		// one.
		c.channel, c.handler, c.batch, c.enqueued, c.cfg = name, channels[name], nil, false, of.cfg.Of(name)
		c.logger, c.metrics = of.logger.With("channel", name), a.telemetry.Channel(of.id, name)
		l, err := a.newLine(c)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		lines, to[name] = append(lines, l), l.dispatch.retrier
	}
	return lines, to, errors.Join(errs...)
}
