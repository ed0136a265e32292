// Package errtext reads errors of users, whose methods may do anything.
package errtext

import "fmt"

// Of is what the error says. Where its Error method panics it is what package fmt prints then, as
// for a pointer that is nil. Package fmt alone would do the same, for a hundred nanoseconds and a
// copy of the text with each failure.
func Of(err error) (text string) {
	defer func() {
		if recover() != nil {
			text = fmt.Sprint(err)
		}
	}()
	return err.Error()
}
