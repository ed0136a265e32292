package server

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
)

// export writes dead messages whole, a line of JSON each, for a file.
func (d deadSets) export(w http.ResponseWriter, r *http.Request) error {
	if err := d.revealed(r, "an export"); err != nil {
		return err
	}
	sought, err := d.chosen(w, r)
	if err != nil {
		return err
	}
	found, err := patiently(r.Context(), d.cfg, func(ctx context.Context) (Export, error) { return sought.set.Export(ctx, sought.query.Filter) })
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "application/x-ndjson")
	h.Set("Content-Disposition", `attachment; filename="dead_set.ndjson"`)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set("Stepwell-Depth", strconv.Itoa(found.Depth))
	h.Set("Stepwell-Matched", strconv.Itoa(found.Matched))
	h.Set("Stepwell-Unsorted", strconv.Itoa(found.Unsorted))
	w.WriteHeader(http.StatusOK)
	err = found.Each(r.Context(), func(message any) error {
		var line bytes.Buffer
		e := json.NewEncoder(&line)
		e.SetEscapeHTML(false)
		if err := e.Encode(message); err != nil {
			return err
		}
		writeWithin(w, d.cfg.WriteTimeout) // anew: for this line
		_, err := w.Write(line.Bytes())
		return err
	})
	if err != nil {
		d.cfg.Logger.Warn("an export was cut off", "address", from(r), "error", err)
		// Half an export must not look like all of it: the connection breaks.
		panic(http.ErrAbortHandler)
	}
	return nil
}
