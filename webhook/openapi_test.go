package webhook

import (
	"encoding/json"
	"fmt"
	"testing"
)

// Whoever makes a client of the description sends nothing that is refused for its size.
func TestTheDescriptionHasTheLimitsOfHeaders(t *testing.T) {
	var page struct {
		Components struct {
			Schemas struct{ Headers json.RawMessage }
		}
	}
	if err := json.Unmarshal(description, &page); err != nil {
		t.Fatal(err)
	}
	value := fmt.Sprintf(`{"type": "string", "maxLength": %d}`, maxHeaderLen)
	want := fmt.Sprintf(`{"type": "object", "maxProperties": %[1]d, "additionalProperties": {"oneOf": [%[2]s, {"type": "array", "maxItems": %[1]d, "items": %[2]s}]}}`, maxHeaders, value)
	if got := compact(t, page.Components.Schemas.Headers); got != compact(t, []byte(want)) {
		t.Errorf("headers are %s, want %s", got, want)
	}
}

// compact is JSON in one form, whatever its blanks and the order of its members.
func compact(t *testing.T, text []byte) string {
	t.Helper()
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		t.Fatal(err)
	}
	same, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(same)
}
