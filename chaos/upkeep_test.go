package chaos

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// holds is what actors have, of the system and of RabbitMQ.
type holds struct{ goroutines, files, mib, connections, channels int }

// idle is what an actor without work has at most, with its two clients of Kafka. Where there was no
// fault it is 107 goroutines, 21 files, and two connections with two channels each, to publish and
// to consume, for the stream and its channel; replays take one more, and what all processes share
// two and seven of the goroutines: to read it, to ask where it ends, to wait for whoever leads, for
// operations where it cannot be had, and for pauses of the whole app.
var idle = holds{goroutines: 109, files: 22, mib: 288, connections: 2, channels: 7}

// most is what actors may have after that scenario.
func (s *site) most(c scenario) holds {
	most := idle
	if c.jumps {
		most.goroutines++ // waits for the signals at which the clock jumps
	}
	if s.rabbits != nil { // two more brokers of Kafka, with a connection of each client to fetch and one to ask, each a file and two goroutines
		most.files, most.goroutines = most.files+8, most.goroutines+16
	}
	if c.env["CHAOS_JOBS"] != "" { // one more stream: its workers, its publisher, its consumer
		most.goroutines += 24
	}
	if c.env["CHAOS_SOURCE"] != "" { // the same, and one more consumer with workers and a connection; beside it the stranger's two connections, each a file
		most.goroutines, most.files, most.connections, most.channels = most.goroutines+62, most.files+3, most.connections+1, most.channels+1
	}
	if c.mib > 0 {
		most.mib = c.mib
	}
	return most
}

// upkeepLimit is how long an actor may have more than that after its work: so long clients of Kafka
// keep connections that nobody uses.
const upkeepLimit = 45 * time.Second

// upkeep complains about what the living actors still hold when there is nothing left to do.
// RabbitMQ is asked once they hold no more than they may: its tool takes a second of CPU time to
// answer.
func (r *run) upkeep() {
	r.t.Helper()
	began := time.Now()
	own, wrong := r.tidied(began.Add(upkeepLimit), r.untidy)
	there, more := r.tidied(began.Add(upkeepLimit), r.untidyAtRabbit)
	own.connections, own.channels = there.connections, there.channels
	r.t.Logf("%d actors without work, of which none has more: %+v, found after %s", len(r.actors), own, time.Since(began).Round(time.Millisecond))
	r.complaints = append(append(r.complaints, wrong...), more...)
}

// tidied looks until nothing is untidy, or the time is over, and returns what was seen last.
func (r *run) tidied(limit time.Time, look func() (holds, []string)) (most holds, wrong []string) {
	for {
		most, wrong = look()
		if len(wrong) == 0 || time.Now().After(limit) {
			return most, wrong
		}
		r.pause(200 * time.Millisecond)
	}
}

// untidy says what the actors have too much of at this moment, and the most that one has.
func (r *run) untidy() (most holds, wrong []string) {
	r.t.Helper()
	http.DefaultClient.CloseIdleConnections() // else the actors have what is ours
	for _, p := range r.actors {
		h, err := p.holds()
		most.goroutines, most.files, most.mib = max(most.goroutines, h.goroutines), max(most.files, h.files), max(most.mib, h.mib)
		if err != nil || h.goroutines > r.most.goroutines || h.files > r.most.files || h.mib > r.most.mib {
			wrong = append(wrong, fmt.Sprintf("process %d has %d goroutines, %d files and had up to %d MiB (%v)", p.cmd.Process.Pid, h.goroutines, h.files, h.mib, err))
		}
	}
	return most, wrong
}

// untidyAtRabbit says what the actors have at RabbitMQ at this moment that they should not, and the
// most that one has.
func (r *run) untidyAtRabbit() (most holds, wrong []string) {
	r.t.Helper()
	note := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	named := map[string]int{}
	for _, p := range r.actors {
		named[p.name()]++
	}
	atRabbit := r.atRabbit()
	for name, h := range atRabbit {
		n := named[name]
		most.connections, most.channels = max(most.connections, h.connections/max(n, 1)), max(most.channels, h.channels/max(n, 1))
		if h.connections != n*r.most.connections || h.channels > n*r.most.channels {
			note("RabbitMQ has %d connections with %d channels of the %d actors that run as %q", h.connections, h.channels, n, name)
		}
	}
	if len(atRabbit) < len(named) {
		note("RabbitMQ has connections of %d actors, and %d run", len(atRabbit), len(named))
	}
	return most, append(wrong, r.consumers()...)
}

// consumers says where others consume than each actor that has the part, from the instant queues.
func (r *run) consumers() (wrong []string) {
	queues, err := r.ask()
	if err != nil {
		return []string{err.Error()}
	}
	for kind, q := range queues {
		should := 0
		switch kind {
		case "instant":
			should = r.with("retries")
		case ofChannel + "instant":
			should = r.with("channels")
		}
		if q.Consumers != should {
			wrong = append(wrong, fmt.Sprintf("queue %s has %d consumers and should have %d", q.Name, q.Consumers, should))
		}
	}
	return wrong
}

// name is how the actor's connections to RabbitMQ begin. Those that reach it without a proxy have
// all the same.
func (p *process) name() string {
	if p.r.toRabbit == nil {
		return p.r.app
	}
	return fmt.Sprintf("%s %d", p.r.app, p.cmd.Process.Pid)
}

var connectionName = regexp.MustCompile(`^(\d+)\s.*"connection_name","(.*?) (publish|consume|lease)( [^"]*)?"`)

// atRabbit is what RabbitMQ knows of the run's actors, by their names.
func (r *run) atRabbit() map[string]holds {
	r.t.Helper()
	all := map[string]holds{}
	for line := range strings.Lines(r.rabbit.Ctl("-q", "list_connections", "channels", "client_properties")) {
		if m := connectionName.FindStringSubmatch(line); m != nil && strings.HasPrefix(m[2], r.app) {
			h := all[m[2]]
			h.connections, h.channels = h.connections+1, h.channels+atoi(r, m[1])
			all[m[2]] = h
		}
	}
	return all
}

// holds is what the actor has of the system, and the most memory it ever had.
func (p *process) holds() (h holds, err error) {
	ctx, cancel := p.r.shortly()
	defer cancel()
	metrics, err := p.metrics(ctx)
	if err != nil {
		return h, err
	}
	proc := filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid))
	files, err := os.ReadDir(filepath.Join(proc, "fd"))
	if err != nil {
		return h, err
	}
	status, err := os.ReadFile(filepath.Join(proc, "status"))
	if err != nil {
		return h, err
	}
	kib := 0
	_, peak, _ := strings.Cut(string(status), "\nVmHWM:")
	_, err = fmt.Sscan(peak, &kib)
	return holds{goroutines: int(metrics["go_goroutines"]), files: len(files), mib: kib >> 10}, err
}

// metrics are the actor's, those without labels.
func (p *process) metrics(ctx context.Context) (map[string]float64, error) {
	_, body, err := p.do(ctx, http.MethodGet, "/metrics", "")
	if err != nil {
		return nil, err
	}
	all := map[string]float64{}
	for lines := bufio.NewScanner(strings.NewReader(body)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) != 2 || fields[0] == "#" {
			continue
		}
		name, _, _ := strings.Cut(fields[0], "{")
		value, err := strconv.ParseFloat(fields[1], 64)
		if err != nil {
			return nil, fmt.Errorf("metric %s: %w", name, err)
		}
		all[name] += value
	}
	return all, nil
}
