package main

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stepwell/stepwell/actor"
	"github.com/stepwell/stepwell/embedded"
)

func TestWhoSignsUpIsWrittenToNowAndLaterThoughTheMailServerIsAwayAtFirst(t *testing.T) {
	const later = 2 * time.Second
	sent := make(chan string, 10)
	var tries atomic.Int32
	s := &service{reminder: later, send: func(_ context.Context, id string, m Mail) error {
		if tries.Add(1) == 1 {
			return errors.New("the mail server is away")
		}
		sent <- id
		return nil
	}}
	app := s.app()
	app.Brokers = embedded.New(embedded.Options{})
	cfg, err := actor.Load(app, []string{"SERVER_ADDRESS=localhost:0", "RETRY_DELAY=10ms"})
	if err != nil {
		t.Fatal(err)
	}
	a, err := actor.New(cfg, app)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	began := time.Now()
	signUp(t, a, "mail=ada@example.com")
	for _, want := range []string{"welcome:ada@example.com", "reminder:ada@example.com"} {
		select {
		case got := <-sent:
			if got != want {
				t.Errorf("%s was sent, want %s", got, want)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("%s was not sent", want)
		}
	}
	if took := time.Since(began); took < later {
		t.Errorf("the reminder came after %s", took)
	}
}

// signUp posts until the actor serves.
func signUp(t *testing.T, a *actor.Actor, form string) {
	t.Helper()
	for range 500 {
		r, err := http.Post("http://"+a.Address()+"/", "application/x-www-form-urlencoded", strings.NewReader(form))
		if err == nil {
			r.Body.Close()
			if r.StatusCode == http.StatusAccepted {
				return
			}
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-t.Context().Done():
		}
	}
	t.Fatal("nobody could sign up")
}
