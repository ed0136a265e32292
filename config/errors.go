package config

import (
	"cmp"
	"errors"
	"slices"
	"strings"
)

// Errors are all mistakes of a configuration.
type Errors []error

// Warning is said beside mistakes, since it may be what explains them. Alone it is none.
type Warning string

// Error says that it is a warning.
func (w Warning) Error() string { return "warning: " + string(w) }

// Error lists them, one a line, the warnings last.
func (e Errors) Error() string {
	lines := make([]string, 0, len(e)+1)
	lines = append(lines, "the configuration has mistakes:")
	for _, err := range e {
		lines = append(lines, "  "+err.Error())
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns them for errors.Is and errors.As.
func (e Errors) Unwrap() []error { return e }

// Join puts mistakes that others found, say in the code, beside those of [Load] in err. It is nil when there are none.
func Join(err error, more ...error) error {
	var all Errors
	if !errors.As(err, &all) && err != nil {
		all = Errors{err}
	}
	all = slices.DeleteFunc(append(slices.Clip(all), more...), func(err error) bool { return err == nil })
	if len(all) == 0 {
		return nil
	}
	slices.SortStableFunc(all, func(a, b error) int {
		return cmp.Or(cmp.Compare(severity(a), severity(b)), strings.Compare(a.Error(), b.Error()))
	})
	return all
}

// severity sorts warnings last.
func severity(err error) int {
	if _, ok := errors.AsType[Warning](err); ok {
		return 1
	}
	return 0
}

// nearest returns the candidate that looks most like name, or "" where none does.
func nearest(name string, candidates []string) string {
	best, at := "", len(name)/3+2
	for _, c := range candidates {
		if d := distance(name, c); d < at {
			best, at = c, d
		}
	}
	return best
}

// distance is the Levenshtein distance in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j]+1, row[j+1]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}

func didYouMean(name string, candidates []string) string {
	if n := nearest(name, candidates); n != "" {
		return "; did you mean " + n + "?"
	}
	return ""
}
