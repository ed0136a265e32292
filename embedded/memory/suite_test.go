package memory_test

import (
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/stepwell/stepwell/embedded/memory"
	"github.com/stepwell/stepwell/internal/queue"
	"github.com/stepwell/stepwell/internal/queue/queuetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestQueuesInMemoryKeepThePromisesOfQueues(t *testing.T) {
	queuetest.Run(t, func(t *testing.T, test func(*testing.T, queuetest.Place)) {
		synctest.Test(t, func(t *testing.T) {
			b := memory.New()
			b.MaxMessageSize = 64 << 10
			test(t, queuetest.Place{Broker: b, MaxMessageSize: b.MaxMessageSize, Exchange: func(t *testing.T, name string) func(string, queue.Message) bool {
				return func(key string, m queue.Message) bool {
					return memory.Exchange{Broker: b, Name: name}.Publish(t.Context(), key, m) == nil
				}
			}})
		})
	})
}
