package operations

import (
	"fmt"
	"slices"
	"strings"
)

// nothing says so where nothing of the operation that a restore is to undo is in the trash, and
// which others of its stream there are; empty: there may be something, or it undoes no operation. A
// delete by count leaves no record that would say of which of them it was.
func (c *Config) nothing(request *Request, found *Sample) string {
	if request.Action != Restore || request.Select.Operation == "" || found.Matched > 0 || found.Unsorted > 0 {
		return ""
	}
	if len(request.Select.IDs) > 0 { // the rest may be there
		return fmt.Sprintf("none of these ids is of a message that %s left in the trash of %s", clip(request.Select.Operation), request.words())
	}
	text := fmt.Sprintf("nothing of %s is in the trash of %s", clip(request.Select.Operation), request.words())
	var others []string
	for t := range c.Sets {
		if t.Stream == request.Stream && t != request.Target {
			others = append(others, t.words())
		}
	}
	if len(others) == 0 {
		return text
	}
	slices.Sort(others)
	return text + "; other trashes of that stream are those of " + strings.Join(others, ", ")
}
