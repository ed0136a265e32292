package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/stepwell/stepwell/internal/filter"
)

// body reads the request's body, which is JSON or empty.
func (q requests) body(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	return readBody(w, r, q.cfg.BodyLimit)
}

// readBody reads a body of at most so many bytes.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	tooLarge := &problem{
		status: http.StatusRequestEntityTooLarge,
		detail: fmt.Sprintf("the body is larger than %d bytes", limit),
	}
	// Nothing of it is read then.
	if r.ContentLength > limit {
		return nil, tooLarge
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	switch _, large := errors.AsType[*http.MaxBytesError](err); {
	case large:
		return nil, tooLarge
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, &problem{status: http.StatusRequestTimeout, detail: "the body did not come in time"}
	case err != nil:
		return nil, mistake("the body could not be read to its end")
	}
	// net/http watches the connection while a handler runs, and would cancel a long walk when the
	// deadline for reading passes. After an error it stays: net/http then reads on, to throw the
	// rest away.
	if err := readUntil(w, time.Time{}); err != nil {
		return nil, err
	}
	if len(body) == 0 {
		return nil, nil
	}
	return body, isJSON(r.Header)
}

// isJSON returns an error unless the header of a request with a body says that it is JSON.
func isJSON(h http.Header) error {
	kind, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	plain := h.Get("Content-Encoding") == "" || strings.EqualFold(h.Get("Content-Encoding"), "identity")
	if err != nil || !plain || kind != "application/json" && !strings.HasSuffix(kind, "+json") {
		return &problem{
			status: http.StatusUnsupportedMediaType,
			detail: fmt.Sprintf("the body must be JSON, not compressed, with content-type: application/json, not %q", clip(h.Get("Content-Type"))),
		}
	}
	return nil
}

// addJSON takes the members of the JSON object in body; an empty body has none.
func (a arguments) addJSON(body []byte) error {
	if len(body) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(body))
	// A float64 would make another number of a count that is too long, and hide an exponent.
	d.UseNumber()
	if err := a.addObject(d); err != nil {
		if p, ok := errors.AsType[*problem](err); ok {
			return p
		}
		return mistake("the body is not JSON: %s", clip(err.Error()))
	}
	// Two objects would be two wishes, of which one is not heard.
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return mistake("the body is not JSON: something follows its object")
	}
	return nil
}

// addObject reads member by member: a map would keep one of two members with the same name, and say
// nothing of the other.
func (a arguments) addObject(d *json.Decoder) error {
	start, err := d.Token()
	if err != nil {
		return noEOF(err)
	}
	if start != json.Delim('{') {
		return mistake("the body must be a JSON object such as {\"count\":10,\"stream\":\"orders\"}")
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return noEOF(err)
		}
		var value any
		if err := d.Decode(&value); err != nil {
			return noEOF(err)
		}
		if err := a.addValue(fmt.Sprint(name), value); err != nil {
			return err
		}
	}
	_, err = d.Token()
	return noEOF(err)
}

// addValue takes a member whose type fits its meaning. A null counts as an empty value.
func (a arguments) addValue(name string, value any) error {
	if !a.knows(name) {
		return a.unknown(name)
	}
	param := meaning(name)
	switch v := value.(type) {
	case nil:
		return a.add(name, "")
	case string:
		return a.add(name, v)
	case bool:
		if param == crashLoopName || param == foreverName || filter.Known(name) {
			return a.add(name, strconv.FormatBool(v))
		}
	case json.Number:
		if param == countName || param == limitName || filter.Known(name) {
			return a.add(name, v.String())
		}
	}
	if param == countName {
		return mistake("count must be a number")
	}
	return mistake("%s must be a text", name)
}

// noEOF says it in words when the input ends too early.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
