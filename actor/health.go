package actor

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/stepwell/stepwell/internal/telemetry"
	"github.com/stepwell/stepwell/server"
	"github.com/stepwell/stepwell/streams"
)

// health looks at what must be well before the actor is ready.
func (a *Actor) health(context.Context) []server.Check {
	checks := []server.Check{{Name: "start function", Ready: a.started.Load(), Detail: "done"}}
	if !a.started.Load() {
		checks[0].Detail = "still running"
	}
	if a.retries {
		status := a.queues.Status()
		checks = append(checks, server.Check{Name: "rabbitmq", Ready: status.Up && !status.Blocked, Detail: status.Detail})
	}
	for _, s := range a.streams {
		checks = append(checks, s.check())
	}
	return checks
}

func (s *stream) check() server.Check {
	c := server.Check{Name: "stream " + s.id}
	status := s.now()
	c.Stuck = status.Stuck
	switch {
	case status.Error != "":
		c.Detail = status.Error
	case !status.Joined:
		c.Detail = "has not joined its consumer group yet"
	default: // ready also where a message cannot be parked: no other instance would do better
		c.Ready = true
		c.Detail = fmt.Sprintf("%d partitions, lag %d, %d in flight", status.Partitions, status.Lag, status.InFlight)
	}
	if s.retrier != nil {
		if trouble := s.retrier.Status().Trouble; trouble != "" {
			c.Detail += ", " + trouble
		}
	}
	if status.Paused {
		c.Detail += ", paused"
	}
	if status.Suspects > 0 {
		c.Detail += fmt.Sprintf(", %d messages are suspected of ending the process and run one at a time", status.Suspects)
	}
	if status.Suspect != "" {
		c.Detail += ", now " + status.Suspect
	}
	if o := status.Oldest; o != nil && status.Stuck {
		c.Detail += fmt.Sprintf(", oldest message %s/%d offset %d, for %v", o.Topic, o.Partition, o.Offset, time.Since(o.Since).Round(time.Second))
	}
	return c
}

// Status tells how the stream is doing, with the depths of its queues.
func (s *stream) Status(ctx context.Context) server.Status {
	status := s.now()
	queues, err := s.depthsNow(ctx)
	status.Queues = queues
	if err != nil && status.Error == "" {
		status.Error = err.Error()
	}
	if s.retrier != nil && status.Error == "" {
		status.Error = s.retrier.Status().Trouble
	}
	return status
}

// now is the status as far as it is known without asking a broker.
func (s *stream) now() server.Status {
	status, _ := s.look()
	return status
}

// look is now, with how many messages the reader's window holds.
func (s *stream) look() (status server.Status, window int64) {
	status = server.Status{Retry: s.retrier != nil, Paused: s.paused.Load()}
	if r := s.reader.Load(); r != nil {
		of := r.Status()
		status.Joined, status.Partitions, status.Lag = of.Joined, of.Partitions, of.Lag
		status.InFlight, status.InFlightBytes = int(of.InFlight), int(of.InFlightBytes)
		status.LastProgress, status.Error = of.LastProgress, of.Err
		status.Oldest = oldest(of.Oldest)
		status.Suspects, status.Suspect = of.Suspects, of.Suspect
		window = of.InFlight
	}
	if s.retrier != nil {
		retries := s.retrier.Status()
		status.InFlight += retries.InFlight
		if retries.Suspect != "" {
			status.Suspects++
			status.Suspect = cmp.Or(status.Suspect, retries.Suspect)
		}
	}
	if why := s.trouble.Load(); why != nil {
		status.Error = "waits for " + *why
	}
	status.Stuck = s.stuck(status, window)
	return status, window
}

func oldest(of *streams.Oldest) *server.Oldest {
	if of == nil {
		return nil
	}
	return &server.Oldest{
		Topic: of.Topic, Partition: of.Partition, Offset: of.Offset, Behind: of.Behind,
		Since: of.Since, AgeSeconds: time.Since(of.Since).Round(time.Millisecond).Seconds(),
	}
}

// stuck tells whether something must be wrong though nothing says so.
func (s *stream) stuck(status server.Status, window int64) bool {
	idle := s.progress.idleFor(status, window, time.Now())
	since := s.dispatch.calls.oldest()
	if !since.IsZero() && time.Since(since) > 2*s.cfg.HandlerTimeout {
		return true
	}
	return idle >= stuckAfter
}

// snapshot is what the gauges show.
func (a *Actor) snapshot() telemetry.Snapshot {
	shot := telemetry.Snapshot{Streams: make(map[string]telemetry.StreamSnapshot, len(a.streams))}
	if a.retries {
		status := a.queues.Status()
		shot.RabbitMQ, shot.RabbitMQUp = true, status.Up && !status.Blocked
	}
	depths := a.depths.get()
	for _, s := range a.streams {
		status, window := s.look()
		of := telemetry.StreamSnapshot{
			Lag: status.Lag, Inflight: int64(s.seats.Taken()), WindowMessages: window, WindowBytes: int64(status.InFlightBytes),
			Stuck: status.Stuck, Suspects: int64(status.Suspects),
		}
		if r := s.reader.Load(); r != nil {
			for _, p := range r.Lags() {
				of.Partitions = append(of.Partitions, telemetry.PartitionLag(p))
			}
		}
		if names := s.queueNames(); len(names) > 0 {
			of.Queues = map[string]int{}
			for _, name := range names {
				if depth, known := depths[name]; known {
					of.Queues[name] = depth
				}
			}
			of.DeadSet = s.topology().DeadSet
		}
		shot.Streams[s.id] = of
	}
	return shot
}
