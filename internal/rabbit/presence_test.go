package rabbit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/testbroker"
)

// somebody is a name that nobody else shows.
func somebody() string { return fmt.Sprintf("rabbit-test-%d.process.0000000a", rand.Uint64()) }

// isShown asks.
func isShown(t *testing.T, b *Broker, name string) bool {
	t.Helper()
	shown, err := b.Shown(within(t, 10*time.Second), name)
	if err != nil {
		t.Error(err)
	}
	return shown
}

func TestWhoShowsItselfIsSeenUntilItEnds(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		name := somebody()
		other, _ := run(t, Config{URLs: []string{url}})
		if isShown(t, other, name) {
			t.Fatal("nobody shows it, and somebody is seen")
		}
		one := New(Config{URLs: []string{url}})
		one.Show(name) // before Run
		one.Show(name)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- one.Run(ctx) }()
		eventually(t, 10*time.Second, "it to be seen", func() bool { return isShown(t, other, name) })
		if !isShown(t, one, name) {
			t.Error("it does not see itself")
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		eventually(t, 10*time.Second, "it to be seen no more", func() bool { return !isShown(t, other, name) })
		one.Show(somebody()) // too late, and no goroutine is left
		if _, err := one.Shown(t.Context(), name); !errors.Is(err, queue.ErrClosed) {
			t.Errorf("a broker whose Run has ended says %v", err)
		}
	})
}

func TestWhoWasCutOffIsSeenAgain(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		name := somebody()
		proxy := newProxy(t, url)
		other, _ := run(t, Config{URLs: []string{url}})
		one, _ := run(t, Config{URLs: []string{proxy.url}, BackoffMin: 2 * time.Second, BackoffMax: 2 * time.Second})
		one.Show(name)
		for range 3 {
			eventually(t, 20*time.Second, "it to be seen", func() bool { return isShown(t, other, name) })
			proxy.cut()
			eventually(t, 10*time.Second, "it to be seen no more", func() bool { return !isShown(t, other, name) })
		}
		eventually(t, 20*time.Second, "it to be seen", func() bool { return isShown(t, other, name) })
	})
}

// The broker has not noticed yet that its connection is gone: nothing comes through, also no end of
// it.
func TestWhoConnectsAnewBeforeTheBrokerNoticesIsSeenInTheEnd(t *testing.T) {
	onEach(t, func(t *testing.T, url string) {
		name := somebody()
		other, _ := run(t, Config{URLs: []string{url}})
		old, end := run(t, Config{URLs: []string{url}})
		old.Show(name)
		eventually(t, 10*time.Second, "the old one to be seen", func() bool { return isShown(t, other, name) })
		one, _ := run(t, Config{URLs: []string{url}})
		one.Show(name)
		for range 10 {
			sleep(t.Context(), showAgain/5)
			if !isShown(t, other, name) {
				t.Error("it is not seen")
			}
		}
		end()
		eventually(t, 10*time.Second, "it to be seen again, and to stay", func() bool {
			return isShown(t, other, name) && sleep(t.Context(), time.Second/2) && isShown(t, other, name)
		})
	})
}

func TestNobodyCanSayWhoIsShownWhileRabbitMQIsAway(t *testing.T) {
	t.Parallel()
	b, _ := run(t, Config{URLs: []string{"amqp://localhost:1"}})
	if shown, err := b.Shown(within(t, time.Second), somebody()); shown || !errors.Is(err, queue.ErrUnavailable) {
		t.Errorf("says %v, %v", shown, err)
	}
}

// It may be deleted while the connection lives.
func TestWhoseQueueIsDeletedIsSeenAgain(t *testing.T) {
	onOwn(t, testbroker.RabbitOptions{}, func(t *testing.T, node *testbroker.Rabbit) {
		one, _ := run(t, Config{URLs: []string{node.URL}})
		other, _ := run(t, Config{URLs: []string{node.URL}})
		name := somebody()
		one.Show(name)
		eventually(t, 10*time.Second, "it to be seen", func() bool { return isShown(t, other, name) })
		_, rest, _ := strings.Cut(node.Ctl("-q", "list_queues", "name", "owner_pid"), lockOf(name)+"\t")
		owner, _, _ := strings.Cut(rest, "\n")
		for line := range strings.Lines(node.Ctl("-q", "list_connections", "pid", "client_properties")) {
			if strings.HasPrefix(line, owner) && !strings.Contains(line, "stepwell consume") {
				t.Errorf("it has another connection than that which consumes: %s", line)
			}
		}
		node.Ctl("eval", fmt.Sprintf(`{ok, Q} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, <<%q>>)), rabbit_amqqueue:delete(Q, false, false, <<"test">>).`, lockOf(name)))
		eventually(t, 10*time.Second, "it to be seen no more", func() bool { return !isShown(t, other, name) })
		eventually(t, 2*showStill, "it to be seen again", func() bool { return isShown(t, other, name) })
	})
}

// Nobody may be held up for a right that is missing.
func TestWhoMayNotShowItselfSaysSoOnceAndIsNotSeen(t *testing.T) {
	onOwn(t, testbroker.RabbitOptions{}, func(t *testing.T, node *testbroker.Rabbit) {
		node.Ctl("add_user", "worker", "secret")
		node.Ctl("set_permissions", "worker", `^none$`, `^amq\.default$`, ".*")
		proxy := newProxy(t, node.URL)
		var log text
		said := func(what string) int { return strings.Count(log.String(), what) }
		one, _ := run(t, Config{
			URLs: []string{proxy.url}, Username: "worker", Password: "secret", BackoffMin: 10 * time.Millisecond, BackoffMax: 10 * time.Millisecond,
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		other, _ := run(t, Config{URLs: []string{node.URL}})
		name, shown := somebody(), somebody()
		one.Show(name)
		eventually(t, 10*time.Second, "it to be told", func() bool { return said("no other process can see that this one lives") == 1 })
		proxy.cut()
		eventually(t, 10*time.Second, "another connection", func() bool { return said("connection=consume product") > 1 })
		other.Show(shown)
		eventually(t, 10*time.Second, "the other to be seen", func() bool { return isShown(t, one, shown) })
		if isShown(t, one, name) || isShown(t, other, name) {
			t.Error("it is seen")
		}
		if n := said("no other process can see"); n != 1 {
			t.Errorf("told %d times", n)
		}
	})
}
