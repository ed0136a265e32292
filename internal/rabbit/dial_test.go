package rabbit

import (
	"net"
	"strings"
	"sync"
	"testing"
	"time"
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
