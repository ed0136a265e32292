package rabbit

import (
	"encoding/binary"
	"fmt"
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

// method is a frame with one AMQP method, whose arguments are given as bytes.
func method(class, id uint16, arguments string) []byte {
	payload := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, class), id)
	payload = append(payload, arguments...)
	frame := binary.BigEndian.AppendUint32([]byte{1, 0, 0}, uint32(len(payload)))
	return append(append(frame, payload...), 0xce)
}

// The library makes a refusal of each bare end of a connection at these points; a broker that does
// refuse may end it so, too.
func TestAConnectionThatEndsInTheMidstOfTheLoginIsNotSaidToBeRefusedForCertain(t *testing.T) {
	start := method(10, 10, "\x00\x09\x00\x00\x00\x00\x00\x00\x00\x05PLAIN\x00\x00\x00\x05en_US")
	tune := method(10, 30, "\x07\xff\x00\x02\x00\x00\x00\x3c")
	for name, test := range map[string]struct {
		says [][]byte // each after something was read
		want string
	}{
		"its user":  {[][]byte{start}, `%s refuses user "guest", or the connection was cut off at the login: is the user and password in rabbitmq.url right?`},
		"its vhost": {[][]byte{start, tune}, `%s refuses vhost "/" to user "guest", or the connection was cut off at the login (rabbitmq.url, rabbitmq.vhost)`},
	} {
		t.Run(name, func(t *testing.T) {
			listen, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = listen.Close() })
			go func() {
				conn, err := listen.Accept()
				if err != nil {
					return
				}
				defer conn.Close()
				some := make([]byte, 4096)
				for _, frame := range test.says {
					_, _ = conn.Read(some)
					_, _ = conn.Write(frame)
				}
				_, _ = conn.Read(some)
			}()
			config := Config{URLs: []string{"amqp://guest:guest@" + listen.Addr().String()}, Setting: func(key string) string { return key }}
			targets, err := config.targets()
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err = targets[0].connect(t.Context(), "test"); err == nil || err.Error() != fmt.Sprintf(test.want, listen.Addr()) {
				t.Errorf("it says %v", err)
			}
		})
	}
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
