//go:build long

package chaos

import (
	"os"
	"testing"
	"time"

	"github.com/stepwell/stepwell/internal/testbroker"
)

// The variables of `make soak`.
const (
	soakVariable      = "SOAK_TIME"  // how long; without it there is no soak
	soakTableVariable = "SOAK_TABLE" // a file for the table
)

// One actor lives as long as the soak; the one beside it is replaced each minute, and the dead set
// replayed, so that a working system is all there is to see: what grows then would grow for ever.
func TestASoakLosesNothingAndNothingGrows(t *testing.T) {
	length, err := time.ParseDuration(os.Getenv(soakVariable))
	if err != nil {
		t.Skip(testbroker.NotRun + "`make soak` says how long")
	}
	seed := seed(t)
	t.Logf("%s=%d", seedVariable, seed)
	child := buildChild(t)
	release := releases()[len(releases())-1]
	s := &site{
		release: release, child: child,
		rabbit: testbroker.StartRabbitMQ(t, release, testbroker.RabbitOptions{}),
		kafka:  testbroker.StartKafka(t, testbroker.KafkaOptions{}),
	}
	soak := scenario{name: "soak", fault: func(r *run) { r.soak(length) }}
	s.test(t, soak, choices(seed, soak.name))
}

// Between two looks, and between two restarts.
const (
	lookPause    = 5 * time.Second
	restartPause = time.Minute
)

// soak looks at the actor that stays, and at the queues, and has complaints about what grows.
func (r *run) soak(length time.Duration) {
	stays := r.actors[0]
	looks := &looks{}
	end, restart := time.Now().Add(length), time.Now().Add(restartPause)
	for time.Now().Before(end) && r.t.Context().Err() == nil {
		if time.Now().After(restart) {
			restart = restart.Add(restartPause)
			r.actors[1].leave()
			r.spawn()
			_, _, err := stays.replay(r.t.Context(), 100_000)
			r.check(err)
		}
		r.look(stays, looks)
		r.pause(lookPause)
	}
	r.complaints = append(r.complaints, looks.growing()...)
	table := looks.table(length, r.rabbit.Version)
	r.t.Log("\n" + table)
	if path := os.Getenv(soakTableVariable); path != "" {
		r.check(os.WriteFile(path, []byte(table), 0o600))
	}
}

// look measures once. What cannot be had is a complaint: an actor that does not answer is not well.
func (r *run) look(p *process, all *looks) {
	ctx, cancel := r.shortly()
	defer cancel()
	metrics, err := p.metrics(ctx)
	if err != nil {
		r.complain("the actor does not tell its metrics: %v", err)
		return
	}
	queues, err := r.ask()
	if err != nil {
		r.complain("RabbitMQ does not tell its depths: %v", err)
		return
	}
	const mib = 1 << 20
	all.add("memory of the actor that stays, RSS in MiB", metrics["process_resident_memory_bytes"]/mib, growth{1.25, 10})
	all.add("memory in use on its heap, in MiB", metrics["go_memstats_heap_inuse_bytes"]/mib, growth{1.25, 10})
	all.add("its goroutines", metrics["go_goroutines"], growth{1.1, 10})
	all.add("its open files and connections", metrics["process_open_fds"], growth{1.1, 3})
	all.add("connections of both actors to RabbitMQ", float64(r.toRabbit.Connections()), growth{1.1, 1})
	all.add("connections of both actors to Kafka", float64(r.toKafka.Connections()), growth{1.1, 2})
	all.add("messages that wait for another try", float64(queues["instant"].Messages+queues[r.delayed()].Messages), growth{1.5, 200})
	all.add("dead messages, replayed each minute", float64(queues["dead_set"].Messages), growth{1.5, 500})
	all.add("records that are not done yet", r.behind(), growth{1.5, 500})
}

// behind is how many records are produced and not committed.
func (r *run) behind() float64 {
	n := int64(0)
	commits := r.watch.commitsNow()
	for partition, end := range r.load.ends() {
		n += end - max(0, commits[partition])
	}
	return float64(n)
}
