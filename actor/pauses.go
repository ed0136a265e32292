package actor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stepwell/stepwell/internal/records"
	"github.com/stepwell/stepwell/server"
)

const (
	// pauseKind is the kind of the records that hold streams back, one for each by its id.
	pauseKind = "stepwell.pauses"
	// pauseLimit is how long somebody who pauses the app waits for records at most.
	pauseLimit = 10 * time.Second
	// pausesKnown is how long a stream waits at its start for the records that say what is paused.
	// They come within a second or two of the connection; it must not stand still for good where
	// they cannot be read.
	pausesKnown = 30 * time.Second
)

// pauses hold streams back in all processes of the app: each of them follows the same records.
type pauses struct {
	// shared is nil where there can be no such pause here, and refused says why.
	shared  *sharing
	refused error
	streams []*stream
	log     *slog.Logger
	unheard sync.Once // nobody is told twice that pauses are not known
	// mu is held while records are read and applied, so that what was read first is not applied
	// last.
	mu     sync.Mutex
	others []server.OtherPause // of streams that this process does not have
}

// pauseRecord is what is kept of one. Fields are never renamed: processes of several releases read
// it.
type pauseRecord struct {
	By    string    `json:"by,omitempty"`
	Since time.Time `json:"since,omitzero"`
}

// newPauses makes those of the actor, whose streams are there.
func newPauses(a *Actor) *pauses {
	p := &pauses{streams: a.streams, log: a.log}
	if keepsOperations(a) {
		p.shared = a.shared
	} else {
		p.refused = fmt.Errorf("%w: %s=false, or no stream retries", server.ErrNotShared, a.cfg.Variable("rabbitmq.records"))
	}
	return p
}

// run holds back what the records say, from the moment at which they are known, until ctx ends.
func (p *pauses) run(ctx context.Context) error {
	if p.shared == nil {
		<-ctx.Done()
		return nil
	}
	for {
		changed := p.shared.store.Changed(pauseKind)
		p.apply()
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// apply holds back and lets go as the records say. While they are not known all stays as it was.
func (p *pauses) apply() {
	p.mu.Lock()
	defer p.mu.Unlock()
	all, err := p.shared.store.All(pauseKind)
	if err != nil {
		return
	}
	found := make(map[string]*server.Pause, len(all))
	for _, r := range all {
		found[r.Name] = pauseOf(r)
	}
	for _, s := range p.streams {
		s.holdForApp(found[s.id])
		delete(found, s.id)
	}
	p.others = nil
	for id, of := range found {
		p.others = append(p.others, server.OtherPause{Stream: id, Pause: *of})
	}
	slices.SortFunc(p.others, func(a, b server.OtherPause) int { return strings.Compare(a.Stream, b.Stream) })
}

// pauseOf reads a record. One that cannot be read holds back all the same: a newer release wrote
// it.
func pauseOf(r records.Record) *server.Pause {
	var of pauseRecord
	_ = json.Unmarshal(r.Value, &of)
	return &server.Pause{Scope: server.ScopeApp, By: of.By, Since: of.Since}
}

// await returns when this process holds back what the records say, or when stop ends. Where they
// cannot be known it says so and returns, too: a stream must not stand still for good.
func (p *pauses) await(stop context.Context) {
	if p.shared == nil {
		return
	}
	if why := p.unknown(stop); why != nil && stop.Err() == nil {
		p.unheard.Do(func() {
			p.log.Warn("streams begin though it is not known which are paused in the whole app; a pause holds them once it is heard of", "reason", why)
		})
	}
}

// unknown waits until it is known what is paused, and is why it is not.
func (p *pauses) unknown(stop context.Context) error {
	enough := time.NewTimer(pausesKnown)
	defer enough.Stop()
	for {
		changed := p.shared.store.Changed(pauseKind)
		known, trouble := p.shared.store.Status()
		if known {
			p.apply()
			return nil
		}
		if why := p.shared.missing(); why != nil {
			return why
		}
		select {
		case <-changed:
		case <-enough.C:
			if trouble == nil {
				trouble = errors.New("they are being read")
			}
			return fmt.Errorf("not known for %v: %w", pausesKnown, trouble)
		case <-stop.Done():
			return stop.Err()
		}
	}
}

// Pause holds a stream back in all processes; see [server.Pauses].
func (p *pauses) Pause(ctx context.Context, stream, by string) error {
	now := pauseRecord{By: by, Since: time.Now().UTC().Truncate(time.Second)}
	value, err := json.Marshal(now)
	if err != nil {
		return fmt.Errorf("pause %s: %w", stream, err)
	}
	_, err = p.change(ctx, stream, func(was bool) (json.RawMessage, bool) { return value, !was })
	if errors.Is(err, server.ErrUnavailable) {
		return fmt.Errorf("%w; meanwhile a pause of each process works: stepwell pause %s, without --app", err, stream)
	}
	return err
}

// Resume ends such a pause; see [server.Pauses].
func (p *pauses) Resume(ctx context.Context, stream string) (was bool, err error) {
	return p.change(ctx, stream, func(was bool) (json.RawMessage, bool) { return nil, was })
}

// errAsWished says that the record is as it is wanted.
var errAsWished = errors.New("it is so already")

// change replaces the record of a stream by what to makes of it, which is told whether there is
// one; false: it stays.
func (p *pauses) change(ctx context.Context, stream string, to func(was bool) (json.RawMessage, bool)) (was bool, err error) {
	if p.shared == nil {
		return false, p.refused
	}
	ctx, cancel := context.WithTimeout(ctx, pauseLimit)
	defer cancel()
	if why := p.shared.missing(); why != nil {
		return false, fmt.Errorf("%w: %w", server.ErrNotShared, why)
	}
	store := p.shared.store
	if _, trouble := store.Status(); trouble != nil { // at once, and not after a wait
		return false, fmt.Errorf("%w: pauses of the app are in records that all its processes share: %w", server.ErrUnavailable, p.why(trouble))
	}
	// What another process was told a moment ago counts here.
	if err = store.Sync(ctx); err == nil {
		err = store.Change(ctx, pauseKind, stream, func(r records.Record) (records.Record, error) {
			was = r.Value != nil
			value, changes := to(was)
			if !changes {
				return r, errAsWished
			}
			r.Value, r.Until = value, time.Time{}
			return r, nil
		})
	}
	switch {
	case err == nil, errors.Is(err, errAsWished):
		p.apply()
		return was, nil
	case errors.Is(err, records.ErrRefused):
		return was, fmt.Errorf("%w: %w", server.ErrNotShared, err)
	}
	return was, fmt.Errorf("%w: it may have been stored, ask again: %w", server.ErrUnavailable, err)
}

// Others are pauses of streams that this process does not have; see [server.Pauses].
func (p *pauses) Others() []server.OtherPause {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.others
}

// check tells who asks how this process is doing that it does not know what is paused. It makes no
// actor unready: no other instance would do better.
func (p *pauses) check() []server.Check {
	if p.shared == nil {
		return nil
	}
	known, trouble := p.shared.store.Status()
	if known || trouble == nil {
		return nil
	}
	return []server.Check{{Name: "pauses of the app", Ready: true, Detail: "not known: " + p.why(trouble).Error()}}
}

// why is what a person is told of a trouble with the records. Where RabbitMQ is away that is why:
// the last reading of the records says how it ended, which is often no more than that it was cut.
func (p *pauses) why(trouble error) error {
	if now := p.shared.status(); !now.Up {
		return fmt.Errorf("RabbitMQ is away (%s)", now.Detail)
	}
	return trouble
}
