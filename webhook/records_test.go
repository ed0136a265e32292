package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// late is a table that is read some time after the start, or after RabbitMQ was away: until then it
// has what was there before.
type late struct {
	known time.Time
	names map[string]bool
}

var errLate = errors.New("being read")

func (l *late) Get(name string) (json.RawMessage, bool, error) {
	return nil, l.names[name] && !time.Now().Before(l.known), nil
}

func (l *late) Current(name string) (json.RawMessage, bool, error) {
	if time.Now().Before(l.known) {
		return nil, false, errLate
	}
	return nil, l.names[name], nil
}

func (l *late) Latest(ctx context.Context, name string) (json.RawMessage, bool, error) {
	select {
	case <-time.After(time.Until(l.known)):
		return l.Current(name)
	case <-ctx.Done():
		return nil, false, errLate
	}
}

func (l *late) Set(context.Context, string, json.RawMessage, time.Time) error { return nil }

// A process that starts, or was cut off, has calls before it has read what is cancelled: they are
// not put off for that, unless it takes long.
func TestACallWaitsForWhatIsCancelledWhileThatIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewShared(nil, nil, &late{known: time.Now().Add(300 * time.Millisecond), names: map[string]bool{"gone": true}})
		began := time.Now()
		for id, want := range map[string]bool{"gone": true, "stays": false} {
			if got, err := s.Cancelled(t.Context(), id); err != nil || got != want {
				t.Errorf("%s: %v, %v", id, got, err)
			}
		}
		if waited := time.Since(began); waited != 300*time.Millisecond {
			t.Errorf("waited for %s", waited)
		}
		never := NewShared(nil, nil, &late{known: time.Now().Add(time.Hour)})
		began = time.Now()
		if _, err := never.Cancelled(t.Context(), "x"); !errors.Is(err, errLate) || time.Since(began) != time.Second {
			t.Errorf("what cannot be read: %v after %s", err, time.Since(began))
		}
	})
}
