package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// export is stepwell dead-set export.
type export struct{ chosen }

// errPart: what was written is not all.
var errPart = errors.New("the export broke off: what was written is not all of it")

// Run writes the messages as they come, since they may be large. Who deletes them afterwards has to
// know that all are there: an export that is not whole is an error.
func (c *export) Run(ctx context.Context, a *actor) error {
	resp, err := a.request(ctx, http.MethodGet, "/v1/dead_set/export", c.query(), nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			return fmt.Errorf("read the actor's answer: %w", err)
		}
		return refused(resp, body)
	}
	matched := resp.Header.Get("Stepwell-Matched")
	if matched == "" {
		return errors.New("the answer is no export: is there a stepwell actor at --address?")
	}
	if _, err := io.Copy(a.out, resp.Body); err != nil {
		return fmt.Errorf("%w: %w", errPart, err)
	}
	depth, unsorted := resp.Header.Get("Stepwell-Depth"), resp.Header.Get("Stepwell-Unsorted")
	fmt.Fprintf(a.errs, "%s of the %s dead messages of %s\n", printable(matched), printable(depth), printable(c.who()))
	if unsorted != "0" {
		return fmt.Errorf("%w: %s of %s messages were not looked at", errLook, printable(unsorted), printable(depth))
	}
	return nil
}
