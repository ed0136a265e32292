package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stepwell/stepwell"
)

// form reads what was posted and gathers all that is wrong with it: a person is to see all mistakes
// at once.
type form struct{ mistakes []Mistake }

// Mistake is one thing that is wrong with a request's body.
type Mistake struct {
	// Field is its path, as request.url; empty: the body itself.
	Field string `json:"field"`
	// Detail says what is wrong, and what would be right.
	Detail string `json:"detail"`
}

// maxMistakes is how many are told: a list of a million bad waits is answered briefly, too.
const maxMistakes = 20

// wrong notes a mistake.
func (f *form) wrong(field, format string, args ...any) {
	if len(f.mistakes) < maxMistakes {
		f.mistakes = append(f.mistakes, Mistake{field, fmt.Sprintf(format, args...)})
	}
}

// body reads the object that is the whole of a body; nil: there is none, and the form says why.
// Only what is JSON to its last byte comes further, so that the others need no such care.
func (f *form) body(raw []byte, known ...string) map[string]json.RawMessage {
	switch {
	case len(bytes.TrimSpace(raw)) == 0:
		f.wrong("", "the body is empty: it must be a JSON object")
		return nil
	case !utf8.Valid(raw): // json.Unmarshal would replace it in silence
		f.wrong("", "the body is not UTF-8")
		return nil
	case !json.Valid(raw):
		f.wrong("", "the body is not JSON: %s", reason(raw))
		return nil
	}
	return f.object("", raw, known...)
}

// reason is what the decoder says of a body that is not JSON.
func reason(raw []byte) string {
	var any json.RawMessage
	err := json.Unmarshal(raw, &any)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Sprintf("%s, at byte %d", syntax.Error(), syntax.Offset)
	}
	return "it cannot be read"
}

// object returns the members of an object, those that are null left out. A member that is not known
// is a mistake, and so is one that is there twice: of two wishes one would not be heard.
func (f *form) object(at string, raw json.RawMessage, known ...string) map[string]json.RawMessage {
	members := map[string]json.RawMessage{}
	d := json.NewDecoder(bytes.NewReader(raw))
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		f.wrong(at, "must be a JSON object, not %s", kind(raw))
		return members
	}
	for d.More() {
		name, err := d.Token()
		var value json.RawMessage
		if err == nil {
			err = d.Decode(&value)
		}
		if err != nil {
			f.wrong(at, "cannot be read: %v", err)
			return members
		}
		key := fmt.Sprint(name)
		_, twice := members[key]
		switch {
		case len(known) > 0 && !slices.Contains(known, key):
			f.wrong(join(at, clip(key)), "is not known here; known: %s", strings.Join(known, ", "))
		case twice:
			f.wrong(join(at, clip(key)), "is there twice")
		default:
			members[key] = value
		}
	}
	for key, value := range members {
		if string(value) == "null" {
			delete(members, key)
		}
	}
	return members
}

// list returns the entries of an array; false: there is no such member, or it is none. Entries are
// read by whoever knows what they are.
func (f *form) list(at string, raw json.RawMessage) ([]json.RawMessage, bool) {
	if raw == nil {
		return nil, false
	}
	var entries []json.RawMessage
	if err := json.Unmarshal(raw, &entries); err != nil {
		f.wrong(at, "must be a list, not %s", kind(raw))
		return nil, false
	}
	return entries, true
}

// text returns a JSON text; empty: there is none.
func (f *form) text(at string, raw json.RawMessage) string {
	if raw == nil {
		return ""
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		f.wrong(at, "must be a text, not %s", kind(raw))
	}
	return s
}

// notEmpty refuses a text that is there and empty: a template makes that of a variable that is not
// set, and nobody meant it. without is what leaving it out stands for.
func (f *form) notEmpty(at string, raw json.RawMessage, without string) {
	if string(raw) == `""` {
		f.wrong(at, "is empty: leave it out for %s", without)
	}
}

// duration returns a time such as "1m30s", from 0 to the longest wait. A number is refused: nobody
// would know whether it counts seconds or milliseconds.
func (f *form) duration(at string, raw json.RawMessage) time.Duration {
	if raw == nil {
		return 0
	}
	var s string
	err := json.Unmarshal(raw, &s)
	d, bad := time.ParseDuration(s)
	switch {
	case err != nil:
		f.wrong(at, "must be a text such as \"5s\" or \"1h30m\", not %s", kind(raw))
	case bad != nil:
		f.wrong(at, "%q is no duration such as \"5s\" or \"1h30m\"", clip(s))
	case d < 0 || d > stepwell.LongestWait:
		f.wrong(at, "%q is not within 0s to %s", clip(s), brief(stepwell.LongestWait))
	default:
		return d
	}
	return 0
}

// milliseconds returns a time that is a number of them, from 0 to the longest wait, as the REST
// retrier has it.
func (f *form) milliseconds(at string, raw json.RawMessage) time.Duration {
	const most = int64(stepwell.LongestWait / time.Millisecond)
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || n < 0 || n > most {
		f.wrong(at, "%s is no whole number of milliseconds within 0 to %d", clip(string(raw)), most)
		return 0
	}
	return time.Duration(n) * time.Millisecond
}

// kind is what a JSON value is, for a person.
func kind(raw json.RawMessage) string {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return "nothing"
	}
	switch raw[0] {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a text"
	case 't', 'f':
		return "true or false"
	case 'n':
		return "null"
	}
	return "a number"
}

// join is the path of a member.
func join(at, name string) string {
	if at == "" {
		return name
	}
	return at + "." + name
}

// clip shortens what somebody sent, so that an answer stays short.
func clip(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// brief is a duration without zeroes at its end.
func brief(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}

// readAll reads a body up to a limit; false: it is larger.
func readAll(r io.Reader, limit int64) ([]byte, bool, error) {
	body, err := io.ReadAll(io.LimitReader(r, limit+1))
	return body, int64(len(body)) <= limit, err
}
