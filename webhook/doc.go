// Package webhook makes HTTP calls that survive: accepted once they are stored, tried again after
// waits of their own, and told of elsewhere when they come to nothing.
//
// A call is a message of a stream that has no topics. [Server] accepts calls over HTTP and enqueues
// them; [Handler] makes them. Both are for such a stream of an actor:
//
//	"calls": {Enqueued: true, Handler: h.Call, OnDead: h.Fallback}
//
// Program cmd/retrier is that actor. The way of a call: accept.go and rest.go read what was posted
// and complain of all of it at once; call.go has its stored form; handler.go makes a try, for which
// hosts.go says whether the address may be called, gate.go whether the host has room, client.go
// sends the request, sign.go signs it; verdict.go decides what the answer means. Beside it are the
// routes, server.go and workflow.go; what gathers mistakes, form.go; what the log tells of hosts,
// turns.go; and what all processes have to be able to look up, workflows and cancelled calls,
// records.go.
//
// The package knows stepwell's messages and verdicts and nothing else of an actor: what it needs
// comes as functions in [Config].
package webhook
