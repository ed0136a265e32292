package actor

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/stepwell/stepwell/internal/inbox"
	"github.com/stepwell/stepwell/internal/telemetry"
	"github.com/stepwell/stepwell/server"
)

// health looks at what must be well before the actor is ready.
func (a *Actor) health(context.Context) []server.Check {
	checks := []server.Check{{Name: "start function", Ready: a.started.Load(), Detail: "done"}}
	if !a.started.Load() {
		checks[0].Detail = "still running"
	}
	// Without retries RabbitMQ is no reason to be unready, whatever it is asked for besides.
	if a.retries {
		status := a.queues.Status()
		checks = append(checks, server.Check{Name: "rabbitmq", Ready: status.Up && !status.Blocked, Detail: status.Detail})
	}
	checks = append(checks, a.shared.check()...)
	checks = append(checks, a.pauses.check()...)
	if m := (modes{a.cfg}); !m.all() {
		checks = append(checks, m.check())
	}
	for _, s := range a.streams {
		checks = append(checks, s.check(a.turn))
	}
	return checks
}

// check is what a probe says of the stream. turn is asked where suspects of it wait for their turn.
func (s *stream) check(turn func() string) server.Check {
	c := server.Check{Name: "stream " + s.id}
	// No broker is asked: a probe comes often, and must answer when brokers do not.
	status, of := s.look()
	c.Stuck = status.Stuck
	if c.Detail = unready(status, of); c.Detail == "" {
		c.Ready = true
		c.Detail = fmt.Sprintf("%s, %d in flight", of.Says, status.InFlight)
	}
	if trouble := s.retries.Status().Trouble; trouble != "" {
		c.Detail += ", " + trouble
	}
	c.Detail += drained(status)
	for _, of := range status.Channels {
		c.Stuck = c.Stuck || of.Stuck
		c.Detail += ofChannel(of)
	}
	for _, p := range status.Pauses {
		c.Detail += ", " + p.String()
	}
	c.Detail += suspected(status, turn)
	if status.Stuck {
		c.Detail += ", stuck: " + status.StuckBecause
	}
	c.Detail += waiting(status, of.First)
	return c
}

// unready says why the stream is not ready; empty: it is, also where a message cannot be parked: no
// other instance would do better.
func unready(status server.Status, of sourceStatus) string { return cmp.Or(status.Error, of.Waits) }

// turn names the suspect whose turn it is in this process; empty: it is nobody's.
func (a *Actor) turn() string {
	for _, s := range a.streams {
		status, _ := s.look()
		if status.Suspect != "" {
			return "stream " + s.id + ", " + status.Suspect
		}
		for _, c := range status.Channels {
			if c.Suspect != "" {
				return "stream " + s.id + " channel " + c.ID + ", " + c.Suspect
			}
		}
	}
	return ""
}

// suspected is what a probe says of suspects; all of a process take turns.
func suspected(s server.Status, turn func() string) (said string) {
	switch s.Suspects {
	case 0:
		return ""
	case 1:
		said = ", 1 message is suspected of ending the process"
	default:
		said = fmt.Sprintf(", %d messages are suspected of ending the process and run one at a time", s.Suspects)
	}
	if s.Suspect != "" {
		return said + ", now " + s.Suspect + tried(s.SuspectTriedUntil)
	}
	if of := turn(); of != "" {
		said += ", and it is the turn of " + of
	}
	return said
}

// tried is what a probe says of a suspect that does not run yet.
func tried(until time.Time) string {
	if until.IsZero() {
		return ""
	}
	return ", of which the process died: it waits until " + until.UTC().Format(time.RFC3339) + ", and runs again then, or goes to the dead set"
}

// drained is what a probe says of a retired stream that is empty.
func drained(status server.Status) (said string) {
	if !status.EmptySince.IsZero() {
		said = fmt.Sprintf(", its queues are empty since %s", status.EmptySince.Format(time.RFC3339))
	}
	if status.MayGo {
		said += ": it may leave the code"
	}
	return said
}

// waiting says how many messages rest, and, where that matters, for what the oldest one waits.
func waiting(s server.Status, oldest string) (says string) {
	if s.Resting > 0 {
		says = fmt.Sprintf(", %d messages rest until they are tried again", s.Resting)
	}
	o := s.Oldest
	if o == nil || !s.Stuck && o.NextTry.IsZero() {
		return says
	}
	says += fmt.Sprintf(", oldest message %s, for %v", oldest, time.Since(o.Since).Round(time.Second))
	if !o.NextTry.IsZero() {
		says += ", rests until " + o.NextTry.UTC().Format(time.RFC3339)
	}
	return says
}

// recordID is the id that the message has in logs, in the dead set and to its handler.
func recordID(o *server.Oldest) string {
	return fmt.Sprintf("%s:%d:%d", o.Topic, o.Partition, o.Offset)
}

// ofChannel is what a probe says of a channel that is not simply well.
func ofChannel(c server.ChannelStatus) (said string) {
	if c.Error != "" {
		said += fmt.Sprintf(", channel %s: %s", c.ID, c.Error)
	}
	if c.Suspect != "" {
		said += fmt.Sprintf(", channel %s: a message that is suspected of ending the process has its turn, %s", c.ID, c.Suspect+tried(c.SuspectTriedUntil))
	}
	if c.Stuck {
		said += fmt.Sprintf(", channel %s, stuck: %s", c.ID, c.StuckBecause)
	}
	return said
}

// Status tells how the stream is doing, with the depths of its queues.
func (s *stream) Status(ctx context.Context) server.Status {
	status := s.now()
	queues, err := s.depthsNow(ctx)
	status.Queues = queues
	if err != nil && status.Error == "" {
		status.Error = err.Error()
	}
	if s.consumes != "" {
		depth, err := s.sourceDepth(ctx)
		if err == nil {
			status.Lag = new(int64(depth))
		} else if status.Error == "" {
			status.Error = err.Error()
		}
	}
	if status.Error == "" {
		status.Error = s.retries.Status().Trouble
	}
	for i, c := range s.channels {
		of := &status.Channels[i]
		if of.Queues, err = c.depthsNow(ctx); err != nil {
			of.Error = cmp.Or(of.Error, err.Error())
		}
	}
	if status.Retired && holds(&status) { // a look as all others are
		s.drain.note(false, time.Now())
		status.EmptySince, status.MayGo = time.Time{}, false
	}
	return status
}

// channelStatus is that of the line of a channel, without the depths of its queues.
func (l *line) channelStatus(setting func(string) string) server.ChannelStatus {
	retries, hangs := l.retries.Status(), l.hangs(setting, inbox.Call{})
	return server.ChannelStatus{
		ID: l.channel, Runs: l.works, InFlight: retries.InFlight, Suspect: retries.Suspect, SuspectTriedUntil: retries.TriedUntil.Truncate(time.Second), Stuck: hangs != "", StuckBecause: hangs, Error: retries.Trouble,
	}
}

// now is the status as far as it is known without asking a broker.
func (s *stream) now() server.Status {
	status, _ := s.look()
	return status
}

// look is now, with what the source alone says.
func (s *stream) look() (status server.Status, of sourceStatus) {
	of = s.source.Status()
	status = of.Status
	status.Retry, status.Pauses = s.retries.on(), s.Pauses()
	status.Paused = len(status.Pauses) > 0
	retries := s.retries.Status()
	status.InFlight += retries.InFlight
	if retries.Suspect != "" {
		status.Suspects++
		if status.Suspect == "" {
			status.Suspect, status.SuspectTriedUntil = retries.Suspect, retries.TriedUntil.Truncate(time.Second)
		}
	}
	status.Source = sourceOf(s)
	status.Retired = s.cfg.Retired
	status.Reads = !s.cfg.Retired && (s.reads || s.consumes != "" || s.enqueued && s.works)
	if status.Retired {
		status.EmptySince, status.MayGo = s.drain.state(time.Now(), s.drainsFor())
	}
	for _, c := range s.channels {
		status.Channels = append(status.Channels, c.channelStatus(s.setting))
	}
	if why := s.trouble.Load(); why != nil {
		status.Error = "waits for " + *why
	}
	// Where retries are off a message may rest for ever, again and again: that is no progress.
	waits := of.Held && s.retries.on()
	status.StuckBecause = s.stuck(status, of.Call, (of.InFlight > 0 || of.Behind) && !waits)
	status.Stuck = status.StuckBecause != ""
	return status, of
}

// sourceOf is the kind of a stream's source.
func sourceOf(s *stream) string {
	switch {
	case s.enqueued:
		return server.FromEnqueue
	case s.cfg.Queue != "" || s.cfg.Exchange != "":
		return server.FromQueue
	}
	return server.FromKafka
}

// stuck says why something must be wrong though nothing else says so; empty: nothing must.
func (s *stream) stuck(status server.Status, runs inbox.Call, work bool) string {
	idle := s.progress.idleFor(status, work, time.Now())
	if hangs := s.hangs(s.setting, runs); hangs != "" || idle < stuckAfter {
		return hangs
	}
	return fmt.Sprintf("there is work, and none was done for %v", idle.Round(time.Second))
}

// snapshot is what the gauges show.
func (a *Actor) snapshot() telemetry.Snapshot {
	shot := telemetry.Snapshot{Streams: make(map[string]telemetry.StreamSnapshot, len(a.streams)), Modes: map[string]bool{}}
	for _, mode := range a.cfg.Modes {
		shot.Modes[mode] = true
	}
	for _, mode := range a.cfg.ModesLeftOut() {
		shot.Modes[mode] = false
	}
	if a.retries {
		status := a.queues.Status()
		shot.RabbitMQ, shot.RabbitMQUp = true, status.Up && !status.Blocked
	}
	if a.shared.wanted() {
		shot.Shared, shot.SharedUp = true, a.shared.read()
	}
	depths := a.depths.get()
	for _, s := range a.streams {
		status, of := s.look()
		one := telemetry.StreamSnapshot{
			Lag: status.Lag, Ready: unready(status, of) == "", WindowMessages: int64(of.InFlight), WindowBytes: int64(status.InFlightBytes),
			Paused: status.Paused, Stuck: status.Stuck, Suspects: int64(status.Suspects), Partitions: s.kafka.lags(), Channels: map[string]telemetry.StreamSnapshot{},
		}
		if s.consumes != "" {
			if depth, known := depths[s.consumes]; known {
				one.Lag = new(int64(depth))
			}
		}
		s.shoot(&one, depths)
		for i, c := range s.channels {
			channel := telemetry.StreamSnapshot{Stuck: status.Channels[i].Stuck}
			if status.Channels[i].Suspect != "" {
				channel.Suspects = 1
			}
			c.shoot(&channel, depths)
			one.Channels[c.channel] = channel
		}
		shot.Streams[s.id] = one
	}
	return shot
}

// shoot adds what each handler has: calls, and queues as deep as they were when they were read.
func (l *line) shoot(to *telemetry.StreamSnapshot, depths map[string]int) {
	to.Inflight = int64(l.seats.Taken())
	names := l.retries.names()
	if len(names) == 0 {
		return
	}
	to.Queues, to.DeadSet = map[string]int{}, l.retries.Topology().DeadSet
	for _, name := range names {
		// A depth that is not known is left out: 0 would say that the queue is empty.
		if depth, known := depths[name]; known {
			to.Queues[name] = depth
		}
	}
}
