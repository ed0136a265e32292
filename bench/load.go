package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// loadJob is the child that posts calls and receives them, so that what is measured is the program
// between the two alone.
const loadJob = "load"

const (
	// posters are connections of the child on which calls are posted at once.
	posters = 64
	// The paths of the child's server: what is called, and what its parent asks.
	hookPath, postPath, receivedPath = "/hook", "/post", "/received"
)

// receiver counts the calls that were made.
type receiver struct {
	mu    sync.Mutex
	n     int64
	more  chan struct{} // closed with the next call
	twice int64
	ids   map[string]bool
}

// serveLoad is that child. It ends when its standard input does.
func serveLoad(ctx context.Context) error {
	r := &receiver{more: make(chan struct{}), ids: map[string]bool{}}
	mux := http.NewServeMux()
	mux.HandleFunc(hookPath, r.hook)
	mux.HandleFunc(receivedPath, r.received)
	mux.HandleFunc(postPath, func(w http.ResponseWriter, req *http.Request) {
		if err := postCalls(req); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
		}
	})
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	server := &http.Server{Handler: mux} //nolint:gosec // on loopback, for its parent
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	if err := json.NewEncoder(os.Stdout).Encode(listener.Addr().String()); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin) // until the parent is done, or gone
	return errors.Join(err, closed(server, served))
}

// closed ends a server of which nobody asks anything any more.
func closed(server *http.Server, served <-chan error) error {
	err := server.Close()
	if e := <-served; !errors.Is(e, http.ErrServerClosed) {
		err = errors.Join(err, e)
	}
	return err
}

// hook takes a call, and answers at once.
func (r *receiver) hook(_ http.ResponseWriter, req *http.Request) {
	_, _ = io.Copy(io.Discard, req.Body) // what is broken off has no answer
	id := req.Header.Get("Webhook-Id")
	r.mu.Lock()
	defer r.mu.Unlock()
	if id == "" || r.ids[id] {
		r.twice++
		return
	}
	r.ids[id] = true
	r.n++
	close(r.more)
	r.more = make(chan struct{})
}

// received answers when so many calls were made.
func (r *receiver) received(w http.ResponseWriter, req *http.Request) {
	want, err := strconv.ParseInt(req.FormValue("n"), 10, 64)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	for {
		r.mu.Lock()
		n, twice, more := r.n, r.twice, r.more
		r.mu.Unlock()
		switch {
		case twice > 0:
			http.Error(w, fmt.Sprintf("%d calls came twice", twice), http.StatusConflict)
			return
		case n >= want:
			return
		}
		select {
		case <-more:
		case <-req.Context().Done():
			return
		}
	}
}

// posting is what is to be posted: Body, so many times, to URL.
type posting struct {
	URL, Body string
	Count     int64
}

// postCalls posts calls on several connections, and returns when each was answered with 202.
func postCalls(req *http.Request) error {
	var p posting
	if err := json.NewDecoder(req.Body).Decode(&p); err != nil {
		return fmt.Errorf("what is to be posted: %w", err)
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: posters}}
	defer client.CloseIdleConnections()
	var next atomic.Int64
	all, ctx := errgroup.WithContext(req.Context())
	for range posters {
		all.Go(func() error {
			for next.Add(1) <= p.Count {
				if err := postOne(ctx, client, p); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return all.Wait()
}

func postOne(ctx context.Context, client *http.Client, p posting) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL, bytes.NewBufferString(p.Body))
	if err != nil {
		return fmt.Errorf("request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	answer, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("post a call: %w", err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusAccepted {
		err = errors.New(string(text))
	}
	if err != nil {
		return fmt.Errorf("post a call: %s: %w", answer.Status, err)
	}
	return nil
}

// load is the child, for its parent.
type load struct {
	*process
	address string
}

func openLoad(ctx context.Context) (*load, error) {
	// It ends with its standard input, also after a case whose context has ended.
	p, err := spawn(context.WithoutCancel(ctx), job{Case: loadJob})
	if err != nil {
		return nil, err
	}
	l := &load{process: p}
	if err := p.read(&l.address); err != nil {
		_ = p.end() // what it said is the error
		return nil, fmt.Errorf("load: %w", err)
	}
	return l, nil
}

// call is the body of a call to a host; more are further members of it.
func callTo(host, more string) string {
	return fmt.Sprintf(`{"request":{"url":"http://%s%s","body":{"text":"%0100d"}},"waits":["10s","1m","1h"]%s}`, host, hookPath, 7, more)
}

// post has so many calls posted, and returns when they are accepted.
func (l *load) post(ctx context.Context, to, body string, count int64) error {
	text, err := json.Marshal(posting{URL: to, Body: body, Count: count})
	if err != nil {
		return err
	}
	return l.ask(ctx, http.MethodPost, postPath, text)
}

// await returns when so many calls were made.
func (l *load) await(ctx context.Context, count int64) error {
	return l.ask(ctx, http.MethodGet, receivedPath+"?n="+strconv.FormatInt(count, 10), nil)
}

func (l *load) ask(ctx context.Context, method, path string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+l.address+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("request: %w", err)
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("load: %w", err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = errors.New(string(text))
	}
	return err
}
