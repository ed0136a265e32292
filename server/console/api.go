package console

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// v1 is the API as a client has it, in this process.
type v1 struct{ handler http.Handler }

// refusal is an answer of /v1 that is a problem, or one of our own.
type refusal struct {
	Status int    `json:"status"`
	Detail string `json:"detail"`
	// Operation is the one that it is about; empty: none.
	Operation  string `json:"operation"`
	retryAfter string
}

// Error is what a person is told.
func (e *refusal) Error() string { return e.Detail }

// refuse is a refusal of our own, in words for whoever asked.
func refuse(status int, format string, args ...any) error {
	return &refusal{Status: status, Detail: fmt.Sprintf(format, args...)}
}

// asRefusal finds the refusal in an error; all else is our own fault.
func asRefusal(err error) (*refusal, bool) { return errors.AsType[*refusal](err) }

// recorder keeps an answer of /v1, of which only the first bytes are kept where most is set.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
	// most is how many bytes are kept, 0: all; size is how many there were.
	most, size int
}

// Header returns the answer's headers.
func (a *recorder) Header() http.Header { return a.header }

// WriteHeader keeps the status.
func (a *recorder) WriteHeader(status int) { a.status = status }

// Write keeps what is to be kept, and counts all.
func (a *recorder) Write(p []byte) (int, error) {
	a.size += len(p)
	if a.most > 0 {
		a.body.Write(p[:min(len(p), max(0, a.most-a.body.Len()))])
		return len(p), nil
	}
	return a.body.Write(p)
}

// request makes a request to /v1 by the right of whoever sent r, which is in its
// context. /v1 writes the address into its audit line; headers of r, the cookie among
// them, do not go along.
func request(r *http.Request, method, path string, query url.Values, body any) (*http.Request, error) {
	var sent io.Reader = http.NoBody
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("make a request to %s: %w", path, err)
		}
		sent = bytes.NewReader(text)
	}
	to, err := http.NewRequestWithContext(r.Context(), method, path, sent)
	if err != nil {
		return nil, fmt.Errorf("make a request to %s: %w", path, err)
	}
	to.URL.RawQuery = query.Encode()
	if body != nil {
		to.Header.Set("Content-Type", "application/json")
	}
	to.RemoteAddr, to.Host = r.RemoteAddr, r.Host
	return to, nil
}

// get reads what /v1 answers into a value.
func (v v1) get(r *http.Request, path string, query url.Values, into any) error {
	to, err := request(r, http.MethodGet, path, query, nil)
	if err != nil {
		return err
	}
	return v.call(to, into)
}

// send has /v1 do something; into may be nil.
func (v v1) send(r *http.Request, method, path string, body, into any, headers ...string) error {
	to, err := request(r, method, path, nil, body)
	if err != nil {
		return err
	}
	for i := 0; i+1 < len(headers); i += 2 {
		to.Header.Set(headers[i], headers[i+1])
	}
	return v.call(to, into)
}

// call makes the request; an answer that is a problem is a refusal.
func (v v1) call(to *http.Request, into any) error {
	a := &recorder{header: http.Header{}, status: http.StatusOK}
	v.handler.ServeHTTP(a, to)
	if a.status >= http.StatusBadRequest {
		return a.refusal()
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(a.body.Bytes(), into); err != nil {
		return fmt.Errorf("read the answer to %s %s: %w", to.Method, to.URL.Path, err)
	}
	return nil
}

// refusal is the answer as an error. Whatever is wrong with its text, its status is told.
func (a *recorder) refusal() error {
	no := &refusal{Status: a.status, retryAfter: a.header.Get("Retry-After")}
	if err := json.Unmarshal(a.body.Bytes(), no); err != nil || no.Detail == "" {
		no.Detail = http.StatusText(a.status)
	}
	no.Status = a.status
	return no
}

// head reads the first bytes of an answer that may be large, and how many there are.
func (v v1) head(r *http.Request, path string, query url.Values, most int) (first []byte, all int, err error) {
	to, err := request(r, http.MethodGet, path, query, nil)
	if err != nil {
		return nil, 0, err
	}
	a := &recorder{header: http.Header{}, status: http.StatusOK, most: most}
	v.handler.ServeHTTP(a, to)
	if a.status >= http.StatusBadRequest {
		return nil, 0, a.refusal()
	}
	return a.body.Bytes(), a.size, nil
}

// hand lets /v1 answer by itself, which is how files are saved: they go through nobody's memory.
func (v v1) hand(w http.ResponseWriter, r *http.Request, path string, query url.Values) error {
	to, err := request(r, http.MethodGet, path, query, nil)
	if err != nil {
		return err
	}
	v.handler.ServeHTTP(w, to)
	return nil
}
