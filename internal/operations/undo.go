package operations

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// nothing says so where nothing of the operation that a restore is to undo is in the trash, and
// which others of its stream there are; empty: there may be something, or it undoes no operation. A
// delete by count leaves no record that would say of which of them it was, nor for how long that
// keeps.
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
	if slices.Sort(others); len(others) > 0 {
		text += "; other trashes of that stream are those of " + strings.Join(others, ", ")
	}
	return text + fmt.Sprintf("; this one keeps for %s: what a delete by count left while that was set otherwise is found once it is set so again", time.Duration(request.Trash))
}
