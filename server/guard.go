package server

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// guard decides who may use /v1, and the user's routes where they want it. It is off for nobody: on
// loopback it keeps web pages out, elsewhere it wants a token. Its fields do not change.
type guard struct {
	holders    []holder // of tokens; none: there are none
	userHeader string   // in which a proxy names who it let in; empty: in none
	insecure   bool
	loopback   func() bool
	origin     *http.CrossOriginProtection
	setting    func(key string) string
	knocks     *knocks
}

// holder is who has a token. Of that the SHA-256 is kept, so that a comparison takes the same time
// whatever is sent.
type holder struct {
	caller
	sum [sha256.Size]byte
}

func newGuard(c Config, loopback func() bool) *guard {
	g := &guard{userHeader: c.UserHeader, insecure: c.Insecure, loopback: loopback, origin: http.NewCrossOriginProtection(), setting: c.Setting, knocks: &knocks{logger: c.Logger}}
	for _, t := range c.Tokens {
		g.holders = append(g.holders, holder{caller{t.Name, t.Role, byToken}, sha256.Sum256([]byte(t.Secret))})
	}
	return g
}

// guarded lets only those in who may use the API, each to do what their role allows.
func (s *Server) guarded(next endpoint) endpoint {
	return func(w http.ResponseWriter, r *http.Request) error {
		if s.cfg.NoAPI != "" {
			return &problem{status: http.StatusNotFound, detail: s.cfg.NoAPI}
		}
		by := callerOf(r)
		// Who is known by now was let in by the console, which asks in their place.
		if by == (caller{}) {
			var err error
			if by, err = s.guard.admit(r); err != nil {
				return err
			}
		}
		if err := by.may(r); err != nil {
			return err
		}
		return next(w, by.with(r))
	}
}

// admit says who sent the request.
func (g *guard) admit(r *http.Request) (caller, error) {
	by, err := g.approach(r)
	if err != nil || by.right != byToken {
		return by, err
	}
	if by, err = g.bearer(r); err != nil {
		g.knocks.refused(r, time.Now())
		return by, err
	}
	return g.named(r, by)
}

// approach says who sent the request where anybody may. Where a token says who it is, the caller
// has that right and nothing else yet: whoever asks looks for it.
func (g *guard) approach(r *http.Request) (caller, error) {
	if err := g.local(r); err != nil {
		return caller{}, err
	}
	// A web page of another origin can send a POST without asking first; only its answer is kept
	// from it.
	if err := g.origin.Check(r); err != nil {
		return caller{}, refused("requests of web pages of another origin are not served")
	}
	switch {
	case len(g.holders) > 0:
		return caller{right: byToken}, nil
	case g.loopback():
		return everybody(byLoopback), nil
	case g.insecure:
		return everybody(byNobody), nil
	}
	return caller{}, refused("this server listens beyond loopback and has no token: set " + g.settings() + " to open it (or " + g.setting("server.insecure") + "=true, for everyone)")
}

// settings are those that have tokens.
func (g *guard) settings() string {
	return g.setting("server.token") + " or " + g.setting("server.tokens")
}

// local refuses a request that reached the loopback under a foreign name: that is how a web page
// comes here, through a name of its own that it points to 127.0.0.1.
func (g *guard) local(r *http.Request) error {
	if g.loopback() && !namesLoopback(r.Host) {
		return refused("the Host header must name the loopback (localhost, 127.0.0.1 or [::1]) on a server that listens there")
	}
	return nil
}

// bearer finds who has the token that was sent. The scheme's name is written in any case, as RFC
// 9110 has it.
func (g *guard) bearer(r *http.Request) (caller, error) {
	scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	by, found := g.holderOf(strings.TrimSpace(given))
	switch {
	case scheme == "":
		return caller{}, &problem{status: http.StatusUnauthorized, detail: "a token is missing: send Authorization: Bearer with one of " + g.settings()}
	case !strings.EqualFold(scheme, "Bearer"): // whatever stands there may be a secret, and is not shown
		return caller{}, &problem{status: http.StatusUnauthorized, detail: "Authorization must begin with Bearer and a space, and then have one of " + g.settings()}
	case found:
		return by, nil
	}
	return caller{}, &problem{status: http.StatusUnauthorized, detail: "the token is none of " + g.settings()}
}

// holderOf finds who has a token. It looks at all of them, so that the time it takes tells nothing.
func (g *guard) holderOf(secret string) (by caller, found bool) {
	sum := sha256.Sum256([]byte(secret))
	for _, h := range g.holders {
		if subtle.ConstantTimeCompare(sum[:], h.sum[:]) == 1 {
			by, found = h.caller, true
		}
	}
	return by, found
}

// knocks tells in the log of who was refused for want of a token that is right: somebody guesses,
// or a script has an old one. Whoever asks often must not fill the log.
type knocks struct {
	logger *slog.Logger

	mu   sync.Mutex
	told time.Time
	more int // that were not told of since
}

// knocksEvery is how often one of those who are refused is told of.
const knocksEvery = 10 * time.Second

// refused tells of a request, unless another was told of only just now.
func (k *knocks) refused(r *http.Request, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.more++; now.Sub(k.told) < knocksEvery {
		return
	}
	k.logger.LogAttrs(context.WithoutCancel(r.Context()), slog.LevelWarn, "audit: refused without a token that is right",
		slog.String("address", from(r)), slog.String("method", r.Method), slog.String("path", r.URL.Path), slog.Int("since_last", k.more))
	k.told, k.more = now, 0
}

func refused(why string) error {
	return &problem{status: http.StatusForbidden, detail: why}
}

// namesLoopback says whether a Host header, with or without a port, is a name of this machine for
// itself.
func namesLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	} else {
		host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	}
	if strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}
