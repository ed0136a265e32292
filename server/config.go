package server

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Off as an address means that there is no HTTP.
const Off = "off"

// MaxCount is the largest count of messages for one peek, replay or delete.
const MaxCount = 100_000

// Config is what a server serves and how. Every zero value works.
type Config struct {
	// Address is host:port to listen on, or [Off]. Default: localhost:8010.
	Address string
	// Setting is how users call a setting, by its key, say "server.token". Nil: by that.
	Setting func(key string) string
	// BodyLimit is the largest body of a request to /v1 in bytes. One that asks for an operation
	// may always have the 320 KiB of the largest selection. Default: 64 KiB.
	BodyLimit int64
	// EditLimit is the largest body of a request that edits a dead message, in bytes. 0: nobody may
	// edit any.
	EditLimit int64
	// App names the actor on the pages of the console. Console serves it, at /console.
	App     string
	Console bool
	// Streams are the actor's streams by stream-id.
	Streams map[string]Stream
	// Trash is for how long what is deleted is kept, in whole seconds. 0: it is gone for good.
	Trash time.Duration
	// Operations acts on chosen messages. Nil: nobody does, and its routes are 404.
	Operations Operations
	// Pauses hold streams back in all processes of the app. Nil: none can be.
	Pauses Pauses
	// Modes are the parts of the actor that run in this process; they are shown.
	Modes []string
	// NoAPI says why /v1 is not served here. Empty: it is.
	NoAPI string
	// Health looks at what must be well before the actor is ready; its context ends after a few
	// seconds. Nil: nothing must.
	Health func(context.Context) []Check
	// Metrics serves /metrics. Nil: 404.
	Metrics http.Handler
	// User serves every path that is not the server's own. Nil: 404. Beyond the time for headers it
	// has no time-outs but those it sets itself, with [http.ResponseController].
	User http.Handler
	// GuardUser lets only those reach User who may use /v1.
	GuardUser bool
	// Logger receives audit lines and what went wrong inside. Nil: [slog.Default].
	Logger *slog.Logger

	Access
	Timeouts
}

// Access says who may use /v1, and as whom.
type Access struct {
	// Tokens are those of which one must be sent to /v1 as Bearer. Off loopback /v1 says 403 where
	// there is none.
	Tokens []Token
	// UserHeader is where a proxy that has a token names who it let in. Empty: nowhere.
	UserHeader string
	// Insecure opens /v1 without a token also off loopback.
	Insecure bool
	// Values is the role that sees what is in records: values, keys and headers. [Nobody]: none
	// does. Default: Viewer.
	Values Role
}

// Timeouts are those of requests.
type Timeouts struct {
	// HeaderTimeout is how long a client may take for the head of a request. Default: 5s.
	HeaderTimeout time.Duration
	// ReadTimeout is how long a client may take for the body of a request that is not for User.
	// Default: 10s.
	ReadTimeout time.Duration
	// WriteTimeout is how long an answer may take, from the request's head on; replay and delete
	// have none. Default: 60s.
	WriteTimeout time.Duration
	// IdleTimeout is how long an unused connection stays open. Default: 2m.
	IdleTimeout time.Duration
	// PeekWait is how long a peek waits while another walk is under way. Default: 5s.
	PeekWait time.Duration
	// DrainTimeout is how long requests may go on at a stop. Default: 2s.
	DrainTimeout time.Duration
}

const (
	defaultAddress   = "localhost:8010"
	defaultBodyLimit = 64 << 10
	maxHeaderBytes   = 64 << 10
)

// withDefaults returns a copy in which nothing is missing.
func (c Config) withDefaults() (Config, error) {
	c.Values = cmp.Or(c.Values, Viewer)
	c.Address = cmp.Or(c.Address, defaultAddress)
	c.BodyLimit = cmp.Or(c.BodyLimit, defaultBodyLimit)
	c.HeaderTimeout = cmp.Or(c.HeaderTimeout, 5*time.Second)
	c.ReadTimeout = cmp.Or(c.ReadTimeout, 10*time.Second)
	c.WriteTimeout = cmp.Or(c.WriteTimeout, time.Minute)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, 2*time.Minute)
	c.PeekWait = cmp.Or(c.PeekWait, 5*time.Second)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, 2*time.Second)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	if c.Setting == nil {
		c.Setting = func(key string) string { return key }
	}
	if c.Pauses == nil {
		c.Pauses = noPauses{}
	}
	if c.Health == nil {
		c.Health = func(context.Context) []Check { return nil }
	}
	if c.Address != Off {
		if _, _, err := net.SplitHostPort(c.Address); err != nil {
			return c, fmt.Errorf("%s: %w", c.Setting("server.address"), err)
		}
	}
	for _, t := range c.Tokens {
		if t.Name == "" || t.Secret == "" || !t.Role.has(Viewer) {
			return c, fmt.Errorf("%s: a token needs a name, a role and a secret", c.Setting("server.tokens"))
		}
	}
	for id, s := range c.Streams {
		if s.Control == nil {
			return c, fmt.Errorf("stream %q has no control", id)
		}
	}
	return c, nil
}
