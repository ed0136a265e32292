package actor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell/config"
	"github.com/stepwell/stepwell/deadset"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/rabbit"
	"github.com/stepwell/stepwell/streams"
)

// printConfig prints every setting, its value, and where it came from. Before them it says that
// those of the brokers are not used, where they are not.
func printConfig(_ context.Context, a *Actor, out io.Writer) error {
	if notice := noticeOf(a); notice != "" {
		fmt.Fprintln(out, notice)
	}
	return a.cfg.Print(out)
}

// printTopology prints the waits of every stream and channel, and its queues with their arguments,
// in the order in which they are to be made.
func printTopology(_ context.Context, a *Actor, out io.Writer) error {
	if m := (modes{a.cfg}); !m.all() {
		fmt.Fprintln(out, m)
	}
	for _, l := range linesOf(a.streams) {
		who := l.id
		if l.channel != "" {
			who += " channel " + l.channel
		}
		if !l.retries.on() {
			fmt.Fprintf(out, "%s: no retry queues (%s=false)\n", who, a.cfg.Variable("retry.enabled"))
			continue
		}
		if l.cfg.Retired {
			who += ", retired"
		}
		fmt.Fprintf(out, "%s: %s\n", who, l.retries.Topology().Waits())
		specs := l.retries.Topology().Specs()
		if l.channel == "" && l.cfg.Exchange != "" {
			specs = append(specs, sourceQueue(&l.cfg, a.cfg.SourceQueue(l.id)))
		}
		if err := printQueues(out, specs); err != nil {
			return err
		}
		if err := printPages(out, l.retries.Topology().DeadSet, a.cfg); err != nil {
			return err
		}
	}
	if a.shared == nil {
		return nil
	}
	fmt.Fprintln(out, "shared by all processes:")
	return printQueues(out, []queue.Spec{sharedLog(a.cfg.App.Name)})
}

// printPages prints the pages of a dead set and of its trash, which are no part of a start.
func printPages(out io.Writer, deadSet string, cfg *config.Config) error {
	of := cfg.DeadSet
	if of.Pages > 0 {
		fmt.Fprintf(out, "  a sort makes as it needs them (%s=%d):\n", cfg.Variable("dead_set.pages"), of.Pages)
		name := func(k int) string { return deadset.PageOf(deadSet, k) }
		if err := printQueues(out, []queue.Spec{{Name: span(name, of.Pages), Kind: queue.DeadSet}}); err != nil {
			return err
		}
	}
	if of.Trash == 0 {
		return nil
	}
	fmt.Fprintf(out, "  a delete makes as it needs them (%s=%s):\n", cfg.Variable("dead_set.trash"), of.Trash)
	// Their numbers go round: see package deadset.
	name := func(k int) string { return deadset.TrashOf(deadSet, of.Trash, k) }
	return printQueues(out, []queue.Spec{{Name: span(name, deadset.MaxPages), Kind: queue.DeadSet, TTL: of.Trash}})
}

// span names so many queues by the first and the last.
func span(name func(int) string, count int) string {
	if count == 1 {
		return name(0)
	}
	return name(0) + " … " + name(count-1)
}

// printQueues prints the queues with their arguments.
func printQueues(out io.Writer, specs []queue.Spec) error {
	for _, spec := range specs {
		arguments, err := rabbit.Arguments(spec)
		if err != nil {
			return err
		}
		text, err := json.Marshal(arguments)
		if err != nil {
			return fmt.Errorf("arguments of queue %s: %w", spec.Name, err)
		}
		fmt.Fprintf(out, "  %s durable %s\n", spec.Name, text)
		for _, key := range spec.Keys {
			fmt.Fprintf(out, "  %s bound to exchange %s by key %s\n", spec.Name, spec.Exchange, key)
		}
	}
	return nil
}

var errUnhealthy = errors.New("not everything is as the actor needs it")

// doctor looks whether brokers, topics and queues are there, and says what to do where they are
// not. It changes nothing but that missing queues are declared, as a start would.
func doctor(ctx context.Context, a *Actor, out io.Writer) error {
	const limit = 20 * time.Second
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	// Clients connect in the background, as in an actor that runs.
	parts := newStack()
	parts.push(ctx, "brokers", a.brokers.Run)
	healthy := true
	report := func(what string, err error) {
		if err != nil {
			healthy = false
			fmt.Fprintf(out, "BAD  %s: %v\n", what, err)
			return
		}
		fmt.Fprintf(out, "ok   %s\n", what)
	}
	if notice := noticeOf(a); notice != "" {
		fmt.Fprintln(out, "note", notice)
	}
	if m := (modes{a.cfg}); !m.all() {
		report(m.String(), nil)
	}
	if (modes{a.cfg}).reads() {
		a.examineKafka(ctx, report)
	}
	a.examineQueues(ctx, out, report)
	end, stop := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer stop()
	if err := parts.unwind(end); err != nil {
		report("brokers", err)
	}
	if !healthy {
		return errUnhealthy
	}
	return nil
}

// examineQueues asks RabbitMQ for the queues of each stream and channel; one that does not answer
// is asked once.
func (a *Actor) examineQueues(ctx context.Context, out io.Writer, report func(string, error)) {
	const limit = 8 * time.Second
	for _, l := range linesOf(a.streams) {
		if !l.retries.on() {
			continue
		}
		asked, cancel := context.WithTimeout(ctx, limit)
		err := l.retries.Declare(asked)
		cancel()
		if errors.Is(err, queue.ErrUnavailable) && !a.queues.Status().Up {
			report("rabbitmq ("+foundBy(a, "rabbitmq.url")+")", errors.New(a.queues.Status().Detail))
			return
		}
		report("queues of "+l.who(), err)
	}
	examineSources(ctx, a.streams, report)
	notePages(ctx, a, out)
	if a.shared == nil {
		return
	}
	asked, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := a.queues.Declare(asked, []queue.Spec{sharedLog(a.cfg.App.Name)})
	if err != nil && !a.app.Shared { // an actor does without
		fmt.Fprintf(out, "note operations on dead sets live in the process that is asked, and end with it, and there is no pause of the whole app: %v\n", err)
		return
	}
	report("records that all processes share", err)
}

// notePages says what will be refused where no page may be made: they are no part of a start. It
// looks at the first, by which the others will be.
func notePages(ctx context.Context, a *Actor, out io.Writer) {
	if a.cfg.RabbitMQ.Declare != "check" {
		return
	}
	const limit = 8 * time.Second
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	of := a.cfg.DeadSet
	for _, l := range linesOf(a.streams) {
		if !l.retries.on() {
			continue
		}
		note := func(what string, page queue.Spec) {
			if _, err := a.queues.Prove(ctx, []queue.Spec{page}); err != nil {
				fmt.Fprintf(out, "note no dead message of %s can be %s: %v\n", l.who(), what, err)
			}
		}
		name := l.retries.Topology().DeadSet
		if of.Pages > 0 {
			note("sorted", queue.Spec{Name: deadset.PageOf(name, 0), Kind: queue.DeadSet})
		}
		if of.Trash > 0 {
			note("deleted, but for good, or edited", queue.Spec{Name: deadset.TrashOf(name, of.Trash, 0), Kind: queue.DeadSet, TTL: of.Trash})
		}
	}
}

// examineSources looks at the queue of each stream that consumes one here, as a start would: one
// that is bound to an exchange is made.
func examineSources(ctx context.Context, all []*stream, report func(string, error)) {
	const limit = 8 * time.Second
	for _, s := range all {
		i, ok := s.source.(*intake)
		if !ok {
			continue
		}
		asked, cancel := context.WithTimeout(ctx, limit)
		err := i.look(asked)
		cancel()
		if err != nil {
			err = errors.New(i.why(err))
		}
		report("queue "+i.spec.Name+" of stream "+s.id, err)
	}
}

// examineKafka asks the cluster with each stream's own options: they may differ in who logs in. A
// cluster that does not answer is asked once.
func (a *Actor) examineKafka(ctx context.Context, report func(string, error)) {
	const limit = 8 * time.Second
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	opts, err := a.brokers.Kafka(ctx)
	if err != nil {
		report("kafka", err)
		return
	}
	for i, s := range slices.DeleteFunc(slices.Clone(a.streams), func(s *stream) bool { return !a.cfg.HasTopics(s.id) }) {
		client, err := kgo.NewClient(slices.Concat(opts, s.kafka.extra())...)
		if err == nil {
			defer client.Close()
			if err = streams.Ping(ctx, client); err != nil {
				err = streams.Explain(a.cfg.Variable, client, err)
			}
		}
		if i == 0 || err != nil {
			report("kafka ("+foundBy(a, "kafka.brokers")+")", err)
		}
		if err != nil {
			return
		}
		if s.reads {
			s.examineTopics(ctx, kadm.NewClient(client), func(key string) string { return settingOf(a, key) }, report)
		}
	}
}

// examineTopics looks whether there is something to read; setting names what says what there is.
func (s *stream) examineTopics(ctx context.Context, admin *kadm.Client, setting func(key string) string, report func(string, error)) {
	for _, topic := range s.cfg.Topics {
		found, err := admin.ListTopics(ctx, topic)
		if err == nil {
			err = found[topic].Err
		}
		if errors.Is(err, kerr.UnknownTopicOrPartition) {
			err = fmt.Errorf("does not exist, or this user may not see it, see %s", setting("streams."+s.id+".topics"))
		}
		report("topic "+topic+" of stream "+s.id, err)
	}
	if s.cfg.TopicPattern != "" {
		matches, err := streams.Matches(ctx, admin, s.cfg.TopicPattern)
		if err == nil && !matches {
			err = fmt.Errorf("no topic matches, or this user may not see it, see %s", setting("streams."+s.id+".topic_pattern"))
		}
		report(fmt.Sprintf("topics %q of stream %s", s.cfg.TopicPattern, s.id), err)
	}
}
