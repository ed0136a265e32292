package actor

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stepwell/stepwell/config"
)

func TestARetiredStreamMayGoOnceItLookedEmptyForLongerThanAnyCallTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, after := &drain{}, 10*time.Minute
		look := func(empty bool) bool {
			d.note(empty, time.Now())
			_, mayGo := d.state(time.Now(), after)
			return mayGo
		}
		began := time.Now()
		for range 39 { // a look each 15 s
			if look(true) {
				t.Fatalf("it may go after %s", time.Since(began))
			}
			time.Sleep(15 * time.Second)
		}
		if look(false) {
			t.Error("it may go though a message is there")
		}
		if since, _ := d.state(time.Now(), after); !since.IsZero() {
			t.Errorf("it is empty since %s", since)
		}
		began = time.Now()
		for !look(true) {
			time.Sleep(15 * time.Second)
		}
		if took := time.Since(began); took != after {
			t.Errorf("it may go after %s, want %s", took, after)
		}
		if !d.goes() || d.goes() {
			t.Error("that is not told once")
		}
	})
}

func TestARetiredStreamDrainsForAsLongAsTheSlowestOfItsHandlersMayTake(t *testing.T) {
	const ahead = 8 * time.Minute
	for _, test := range []struct{ stream, channel, ahead, want time.Duration }{
		{time.Second, time.Second, time.Minute, quiet},
		{10 * time.Minute, time.Second, ahead, 20*time.Minute + ahead},
		{time.Second, 7 * time.Minute, ahead, 14*time.Minute + ahead},
		{time.Second, time.Second, ahead, 2*time.Second + ahead},
	} {
		of := func(d time.Duration) *line { return &line{cfg: config.Stream{HandlerTimeout: d}} }
		s := &stream{line: of(test.stream), channels: []*line{of(test.channel)}, ahead: test.ahead}
		if got := s.drainsFor(); got != test.want {
			t.Errorf("%s and %s: %s, want %s", test.stream, test.channel, got, test.want)
		}
	}
}
