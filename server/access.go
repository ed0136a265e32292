package server

import (
	"context"
	"fmt"
	"net/http"
	"unicode"
	"unicode/utf8"
)

// Role is what somebody may do; the zero value may nothing.
type Role string

// The roles. Who has a later one may all that those before it may.
const (
	Viewer   Role = "viewer"   // looks: GET and HEAD
	Operator Role = "operator" // changes: all else
	Nobody   Role = "none"     // which nobody has
)

// rank is the role's place among all; 0: it is none.
func (r Role) rank() int {
	switch r {
	case Viewer:
		return 1
	case Operator:
		return 2
	case Nobody:
	}
	return 0
}

// has says whether who has the role may do what needs the other. What needs none of them nobody
// may.
func (r Role) has(need Role) bool { return need.rank() > 0 && r.rank() >= need.rank() }

// Token lets somebody use /v1 and the console.
type Token struct {
	// Name is what logs and operations call them.
	Name   string
	Role   Role
	Secret string
}

// caller is who sent a request: a name, what they may do, and by what right they were let in.
type caller struct {
	name  string
	role  Role
	right string
}

// The rights by which somebody is let in.
const (
	byToken    = "token"    // it was sent
	bySession  = "session"  // of the console, which began with a token
	byLoopback = "loopback" // of the same machine, and there is no token
	byNobody   = "insecure" // the setting of that name: whoever reaches the server
)

// everybody is who is let in without a token: nobody can tell them apart.
func everybody(right string) caller { return caller{right, Operator, right} }

// callerKey is the key of a request's context under which its caller is left.
type callerKey struct{}

// with is the request as one that the caller sends.
func (c caller) with(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), callerKey{}, c))
}

// callerOf is who sent a request that was let in; the zero value before that.
func callerOf(r *http.Request) caller {
	c, _ := r.Context().Value(callerKey{}).(caller)
	return c
}

// who is the name of whoever sent a request that was let in.
func who(r *http.Request) string { return callerOf(r).name }

// need is the role that a request needs: what may change something needs the operator's, whatever
// it says. A route that were different would have to be found out by whoever reads the table.
func need(r *http.Request) Role {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return Viewer
	}
	return Operator
}

// may returns the refusal of a request that needs more than the caller's role.
func (c caller) may(r *http.Request) error {
	if least := need(r); !c.role.has(least) {
		return refused(fmt.Sprintf("what changes something needs the role %s, and %s has the role %s: nothing was done", least, c.name, c.role))
	}
	return nil
}

// maxName is how long a name may be that a proxy gives, in bytes.
const maxName = 100

// named is the caller under the name that the proxy gives them whose token it is. That of the token
// stays behind it: who has one can write any name into a header, and must not pass for another.
func (g *guard) named(r *http.Request, c caller) (caller, error) {
	if g.userHeader == "" {
		return c, nil
	}
	given := r.Header.Values(g.userHeader)
	if len(given) == 0 {
		return c, nil // a program that comes past the proxy, with a token of its own
	}
	if len(given) > 1 || !plain(given[0]) {
		return caller{}, mistake("%s must be there once, with a name of 1 to %d bytes", g.userHeader, maxName)
	}
	c.name = given[0] + " via " + c.name
	return c, nil
}

// plain says of a name that it is one, and shows as what it is: it stands in logs and on pages.
func plain(name string) bool {
	if name == "" || len(name) > maxName || !utf8.ValidString(name) {
		return false
	}
	for _, r := range name {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}
