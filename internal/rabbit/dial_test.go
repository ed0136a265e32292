package rabbit

import (
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stepwell/stepwell/internal/testbroker"
)

// A broker that hangs takes connections, by its kernel, and says nothing.
func TestABrokerThatHangsIsNotSaidToHaveEndedTheHandshake(t *testing.T) {
	listen, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listen.Close() })
	config := Config{URLs: []string{"amqp://" + listen.Addr().String()}, Setting: func(key string) string { return key }}
	targets, err := config.targets()
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 400 { // two limits of one length race: one by one, so that nothing else runs beside
		sleep(t.Context(), 7*time.Millisecond)
		all.Go(func() {
			_, _, err := targets[0].connect(t.Context(), "test")
			if err == nil || !strings.Contains(err.Error(), "no answer within 5s") {
				t.Errorf("it says %v", err)
			}
		})
	}
	all.Wait()
}

// A message whose headers fit no frame ends the connection each time that it is sent.
func TestABrokerOfSmallFramesIsNotUsedAndSaysWhichSettingToRaise(t *testing.T) {
	onOwn(t, testbroker.RabbitOptions{Conf: []string{"frame_max = 16384"}}, func(t *testing.T, node *testbroker.Rabbit) {
		b, _ := run(t, Config{URLs: []string{node.URL}, BackoffMin: time.Millisecond, BackoffMax: 20 * time.Millisecond})
		eventually(t, 5*time.Second, "it to say why", func() bool {
			s := b.Status()
			return !s.Up && strings.Contains(s.Detail, "takes frames of 16384 bytes") && strings.Contains(s.Detail, "frame_max")
		})
	})
}
