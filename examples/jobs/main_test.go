package main

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stepwell/stepwell/actortest"
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
	a := actortest.Start(t, app, "RETRY_DELAY=10ms")
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

func signUp(t *testing.T, a *actortest.Actor, form string) {
	t.Helper()
	r, err := http.Post(a.URL("/"), "application/x-www-form-urlencoded", strings.NewReader(form))
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	if r.StatusCode != http.StatusAccepted {
		t.Fatalf("nobody could sign up: %s", r.Status)
	}
}
