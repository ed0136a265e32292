package server

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// guard decides who may use /v1, and the user's routes where they want it. It is off for nobody: on
// loopback it keeps web pages out, elsewhere it wants a token. Its fields do not change.
type guard struct {
	// token is the SHA-256 of the token, so that a comparison takes the same time whatever is sent;
	// nil: none is set.
	token    *[sha256.Size]byte
	insecure bool
	loopback func() bool
	origin   *http.CrossOriginProtection
	setting  func(key string) string
}

func newGuard(c Config, loopback func() bool) *guard {
	g := &guard{insecure: c.Insecure, loopback: loopback, origin: http.NewCrossOriginProtection(), setting: c.Setting}
	if c.Token != "" {
		sum := sha256.Sum256([]byte(c.Token))
		g.token = &sum
	}
	return g
}

// whoKey is the key of a request's context under which guarded leaves who sent it.
type whoKey struct{}

// who says by what right the request was let in: a "token", a "loopback" address, or the setting
// "insecure".
func who(r *http.Request) string {
	by, _ := r.Context().Value(whoKey{}).(string)
	return by
}

// guarded lets only those in who may use the API.
func (s *Server) guarded(next endpoint) endpoint {
	return func(w http.ResponseWriter, r *http.Request) error {
		if s.cfg.NoAPI != "" {
			return &problem{status: http.StatusNotFound, detail: s.cfg.NoAPI}
		}
		if who(r) != "" {
			return next(w, r) // the console let it in, and asks in its place
		}
		by, err := s.guard.admit(r)
		if err != nil {
			return err
		}
		return next(w, r.WithContext(context.WithValue(r.Context(), whoKey{}, by)))
	}
}

// admit says by what right the request may be served.
func (g *guard) admit(r *http.Request) (by string, err error) {
	if by, err = g.approach(r); by == byToken {
		err = g.bearer(r)
	}
	return by, err
}

// byToken is the right of those who show the token; who asks approach looks for it.
const byToken = "token"

// approach says by what right the request may be served, if it has the token where that is the one.
func (g *guard) approach(r *http.Request) (by string, err error) {
	if err := g.local(r); err != nil {
		return "", err
	}
	// A web page of another origin can send a POST without asking first; only its answer is kept
	// from it.
	if err := g.origin.Check(r); err != nil {
		return "", refused("requests of web pages of another origin are not served")
	}
	switch {
	case g.token != nil:
		return byToken, nil
	case g.loopback():
		return "loopback", nil
	case g.insecure:
		return "insecure", nil
	}
	return "", refused("this server listens beyond loopback and has no token: set " + g.setting("server.token") + " to open it (or " + g.setting("server.insecure") + "=true, for everyone)")
}

// local refuses a request that reached the loopback under a foreign name: that is how a web page
// comes here, through a name of its own that it points to 127.0.0.1.
func (g *guard) local(r *http.Request) error {
	if g.loopback() && !namesLoopback(r.Host) {
		return refused("the Host header must name the loopback (localhost, 127.0.0.1 or [::1]) on a server that listens there")
	}
	return nil
}

// bearer compares the token that was sent. The scheme's name is written in any case, as RFC 9110
// has it.
func (g *guard) bearer(r *http.Request) error {
	scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	sum := sha256.Sum256([]byte(strings.TrimSpace(given)))
	same := subtle.ConstantTimeCompare(sum[:], g.token[:]) == 1
	switch {
	case same && strings.EqualFold(scheme, "Bearer"):
		return nil
	case scheme == "":
		return &problem{status: http.StatusUnauthorized, detail: "a token is missing: send Authorization: Bearer with the value of " + g.setting("server.token")}
	}
	return &problem{status: http.StatusUnauthorized, detail: "the token is not the one of " + g.setting("server.token")}
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
