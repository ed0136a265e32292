// Package server is an actor's HTTP: probes, metrics, dead sets, streams, and the user's own
// handler.
//
// It sees dead sets and streams through interfaces of its own ([DeadSet], [Control]) and knows
// nothing of queues. Only routes.go knows the web framework; every other file has functions of an
// [http.ResponseWriter] and a request.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"

	"github.com/stepwell/stepwell/server/console"
)

// Server is an actor's HTTP server.
//
// It opens in two steps. [Server.Run] listens; from then on the probes (/ping, /livez, /readyz,
// /metrics) answer, everything else says 503. [Server.Open] lets the other requests in until the
// actor stops.
type Server struct {
	cfg     Config
	handler http.Handler
	// gate holds back what comes before Open and after its end; guard says who may use /v1.
	gate  *gate
	guard *guard
	// console is nil where it is turned off.
	console *console.Console
	// addr is nil while nobody listens. Requests read it while Run sets it.
	addr atomic.Pointer[net.TCPAddr]
}

// New makes a server; it does not listen yet.
func New(cfg Config) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, gate: newGate()}
	s.guard = newGuard(cfg, s.loopback)
	if cfg.Console {
		if s.console, err = s.newConsole(); err != nil {
			return nil, err
		}
	}
	s.handler = s.router()
	return s, nil
}

// Addr returns the address the server listens on; "" while it does not.
func (s *Server) Addr() string {
	if addr := s.addr.Load(); addr != nil {
		return addr.String()
	}
	return ""
}

// loopback says whether only this machine can reach the server.
func (s *Server) loopback() bool {
	addr := s.addr.Load()
	return addr != nil && addr.IP.IsLoopback()
}

// Run listens and serves until ctx ends; then it gives requests under way DrainTimeout, cuts what
// is left, and returns nil.
func (s *Server) Run(ctx context.Context) error {
	if s.cfg.Address == Off {
		<-ctx.Done()
		return nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.cfg.Address)
	if err != nil {
		return fmt.Errorf("listen on %s %s: %w", s.cfg.Setting("server.address"), s.cfg.Address, err)
	}
	addr, ok := listener.Addr().(*net.TCPAddr)
	if !ok {
		return fmt.Errorf("listen on %s %s: not a TCP address", s.cfg.Setting("server.address"), s.cfg.Address)
	}
	s.addr.Store(addr)
	defer s.addr.Store(nil)
	s.announce(addr)
	return s.serve(ctx, listener)
}

func (s *Server) serve(ctx context.Context, listener net.Listener) error {
	srv := &http.Server{
		Handler:           s.handler,
		ReadHeaderTimeout: s.cfg.HeaderTimeout,
		IdleTimeout:       s.cfg.IdleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(s.cfg.Logger.Handler(), slog.LevelWarn),
	}
	// No ReadTimeout and no WriteTimeout here: net/http cancels the context of a handler that runs
	// past the first, and the second would cut long replays and the user's streams. The own routes
	// set deadlines for themselves.
	ended := make(chan error, 1)
	// Serve ends with Shutdown or Close, and is waited for below.
	go func() { ended <- srv.Serve(listener) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve HTTP on %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.DrainTimeout)
	defer cancel()
	err := srv.Shutdown(drain)
	// Shutdown does not cut connections, however long a handler holds on to one.
	if errors.Is(err, context.DeadlineExceeded) {
		err = srv.Close()
	}
	<-ended //nolint:errcheck // Serve says only that it was closed
	if err != nil {
		return fmt.Errorf("stop HTTP: %w", err)
	}
	return nil
}

// announce logs where the server is, and how far its API is open.
func (s *Server) announce(addr *net.TCPAddr) {
	s.cfg.Logger.Info("HTTP server listens", "address", addr.String())
	switch {
	case s.cfg.Insecure && s.cfg.GuardUser:
		s.cfg.Logger.Warn("/v1 and the program's own routes are open: where there is no token, everyone who reaches this address can use them",
			"address", addr.String(), "opened_by", s.cfg.Setting("server.insecure"), "closed_by", s.guard.settings())
	case s.cfg.Insecure:
		s.cfg.Logger.Warn("/v1 is open: where there is no token, everyone who reaches this address can read, replay and delete dead messages",
			"address", addr.String(), "opened_by", s.cfg.Setting("server.insecure"), "closed_by", s.guard.settings())
	case len(s.cfg.Tokens) == 0 && !addr.IP.IsLoopback() && s.cfg.GuardUser:
		s.cfg.Logger.Warn("/v1 and the program's own routes are closed, since the address is not loopback and there is no token", "address", addr.String(), "opened_by", s.guard.settings())
	case len(s.cfg.Tokens) == 0 && !addr.IP.IsLoopback():
		s.cfg.Logger.Warn("/v1 is closed, since the address is not loopback and there is no token", "address", addr.String(), "opened_by", s.guard.settings())
	}
}

// Open lets requests in, those of the user's handler included, until ctx ends. Then new ones get
// 503 (probes go on), those under way have DrainTimeout before their contexts end too, and Open
// returns when they are gone; an error says how many did not go.
func (s *Server) Open(ctx context.Context) error {
	return s.gate.open(ctx, s.cfg.DrainTimeout)
}
