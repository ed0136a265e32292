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

// Join puts mistakes that others found, say in the code, beside those of [Load] in err. It is nil
// when there are none.
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
