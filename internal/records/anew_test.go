package records

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell/embedded/memory"
	"github.com/stepwell/stepwell/internal/queue"
)

// plain ends a Follow with the error of its context alone, as RabbitMQ's does.
type plain struct{ absent }

func (b plain) Follow(ctx context.Context, log string, from int64, entry func(queue.Entry)) error {
	err := b.absent.Follow(ctx, log, from, entry)
	if ctx.Err() != nil {
		err = fmt.Errorf("follow %s: %w", log, ctx.Err())
	}
	return err
}

func TestWhyALogIsReadAnewIsSaidInWords(t *testing.T) {
	inMemory(t, func(t *testing.T, w *world, b *memory.Broker) {
		broker := plain{absent{w.Broker, make(chan struct{}), make(chan struct{})}}
		var said bytes.Buffer
		s := New(Config{Broker: broker, Log: w.log, Logger: slog.New(slog.NewTextHandler(&said, nil)), pause: time.Millisecond})
		stop := run(t, s.Run)
		w.ready(s)
		close(broker.away)
		time.Sleep(time.Second)
		b.Delete(w.log)
		w.ready(w.store())
		close(broker.back)
		time.Sleep(2 * time.Minute)
		w.ready(s)
		stop()
		if text := said.String(); strings.Contains(text, "context canceled") || !strings.Contains(text, ErrAnew.Error()) {
			t.Errorf("the log says: %s", text)
		}
	})
}
