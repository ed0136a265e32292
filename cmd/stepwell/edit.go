package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// edit is stepwell dead-set edit. It edits the value alone.
type edit struct {
	ID      string  `arg:"" help:"The message's id."`
	Stream  string  `help:"The stream-id." required:"" short:"s"`
	Channel *string `help:"One of the stream's channels; default: the stream itself." short:"c"`
	Value   string  `help:"File with the new value; default: the editor that VISUAL or EDITOR names is opened." type:"existingfile" placeholder:"FILE"`
	Note    *string `help:"A note for who looks at the operation."`
	Yes     bool    `help:"Do not ask; needs --value." short:"y"`
}

// Validate is called by kong before Run.
func (c *edit) Validate() error {
	for name, text := range map[string]*string{"channel": c.Channel, "note": c.Note} {
		if text != nil && *text == "" {
			return empty(name)
		}
	}
	if c.Yes && c.Value == "" {
		return errors.New("--yes needs --value FILE: an editor is for a person, who is asked")
	}
	return nil
}

// changed is what the actor is asked for. The value goes as base64: any bytes survive that.
type changed struct {
	Stream   string  `json:"stream"`
	Channel  *string `json:"channel,omitempty"`
	Value    []byte  `json:"value"`
	Encoding string  `json:"encoding"`
	Note     *string `json:"note,omitempty"`
}

// Run has a copy of the message with another value handled, once a person has said yes.
func (c *edit) Run(ctx context.Context, a *actor) error {
	if a.ask == nil && !c.Yes {
		return fmt.Errorf("%w, with --value FILE", errUnasked)
	}
	path, q := "/v1/dead_set/messages/"+url.PathEscape(c.ID), url.Values{"stream": {c.Stream}, "part": {"value"}}
	if c.Channel != nil {
		q.Set("channel", *c.Channel)
	}
	if err := c.mayEdit(ctx, a, path); err != nil {
		return err
	}
	a.noteHeld(ctx, c.Stream)
	was, err := a.send(ctx, "GET", path, q)
	if err != nil {
		return err
	}
	replace := func(now []byte) error { return c.replace(ctx, a, path, was, now) }
	if c.Value == "" {
		return inEditor(ctx, was, replace)
	}
	now, err := os.ReadFile(c.Value)
	if err != nil {
		return fmt.Errorf("--value: %w", err)
	}
	return replace(now)
}

// mayEdit asks for an edit of nothing. Who may edit is told what is missing in it, all others why
// they may not, before they have written anything.
func (c *edit) mayEdit(ctx context.Context, a *actor, path string) error {
	err := a.wish(ctx, "POST", path+"/edit", map[string]string{"stream": c.Stream}, &json.RawMessage{})
	if r, ok := errors.AsType[*refusal](err); ok && r.status == http.StatusBadRequest {
		return nil
	}
	return err
}

// replace shows the difference, asks, and has it done.
func (c *edit) replace(ctx context.Context, a *actor, path string, was, now []byte) error {
	if bytes.Equal(was, now) {
		return fmt.Errorf("the value is what it was: %w", errNo)
	}
	if !c.Yes {
		if _, err := fmt.Fprint(a.errs, difference(was, now)); err != nil {
			return fmt.Errorf("show the difference: %w", err)
		}
		question := fmt.Sprintf("Have this copy of %s handled, and put the message itself into the trash?", printable(c.ID))
		if err := a.ask(question); err != nil {
			return err
		}
	}
	var whole json.RawMessage
	if err := a.wish(ctx, "POST", path+"/edit", changed{c.Stream, c.Channel, now, "base64", c.Note}, &whole); err != nil {
		return half(err)
	}
	if a.json {
		return a.line(whole)
	}
	var answer result
	if err := read(whole, &answer); err != nil {
		return err
	}
	return a.write([]byte(a.addressed(plain(answer.Message)) + "\n"))
}

// half says of an edit that may be half done that somebody has to look: done again it would send
// another copy. Of what it did not do the actor says when to try again.
func half(err error) error {
	r, ok := errors.AsType[*refusal](err)
	if !ok || r.status != http.StatusServiceUnavailable || r.retryAfter != "" {
		return inDoubt(err)
	}
	return fmt.Errorf("%w: %w", errLook, err)
}

// inEditor has a person make the new value in the editor. What they wrote is kept where replace
// goes wrong, but for a no.
func inEditor(ctx context.Context, was []byte, replace func(now []byte) error) error {
	editor := cmp.Or(os.Getenv("VISUAL"), os.Getenv("EDITOR"))
	if editor == "" {
		return errors.New("neither VISUAL nor EDITOR says which editor to open: set one, or give --value FILE")
	}
	// A folder of its own: editors leave copies beside the file, which nobody else is to read.
	folder, err := os.MkdirTemp("", "stepwell-edit-")
	if err != nil {
		return fmt.Errorf("open the editor: %w", err)
	}
	path := filepath.Join(folder, "value")
	now, err := written(ctx, editor, path, was)
	if err == nil {
		err = replace(now)
		if err != nil && !errors.Is(err, errNo) && os.WriteFile(path, now, 0o600) == nil {
			return fmt.Errorf("%w; what you wrote is in %s, which --value takes", err, path)
		}
	}
	return errors.Join(err, os.RemoveAll(folder))
}

// written is what the editor made of the value, in the file of that path.
func written(ctx context.Context, editor, path string, was []byte) ([]byte, error) {
	if err := os.WriteFile(path, was, 0o600); err != nil {
		return nil, fmt.Errorf("open the editor: %w", err)
	}
	// By a shell, since a variable such as "code --wait" has arguments.
	open := exec.CommandContext(ctx, "sh", "-c", editor+` "$1"`, editor, path)
	open.Stdin, open.Stdout, open.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := open.Run(); err != nil {
		return nil, fmt.Errorf("the editor %q: %w: %w", editor, err, errNo)
	}
	now, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read what the editor left: %w", err)
	}
	// Most editors end the last line, which the value of a record rarely has.
	if !bytes.HasSuffix(was, []byte("\n")) {
		now = bytes.TrimSuffix(now, []byte("\n"))
	}
	return now, nil
}

// mostShown is how many lines of each side a difference shows.
const mostShown = 100

// difference is what a person is shown: the lines that are not the same at the beginning and at the
// end of both.
func difference(was, now []byte) string {
	a, b := strings.Split(string(was), "\n"), strings.Split(string(now), "\n")
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	var text strings.Builder
	for _, side := range []struct {
		sign  string
		lines []string
	}{{"- ", a}, {"+ ", b}} {
		for _, line := range side.lines[:min(len(side.lines), mostShown)] {
			text.WriteString(side.sign + printable(line) + "\n")
		}
		if more := len(side.lines) - mostShown; more > 0 {
			fmt.Fprintf(&text, "%s… %d lines more\n", side.sign, more)
		}
	}
	fmt.Fprintf(&text, "%d bytes, %d before\n", len(now), len(was))
	return text.String()
}
