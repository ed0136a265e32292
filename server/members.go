package server

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// members are those of a JSON object, of which each has to be known, and of the type that is asked
// for: null is none. What somebody wished for and was not understood must never be left out.
type members struct {
	where string // "select.", or empty
	of    map[string]any
	known []string
	wrong *[]string // the mistakes so far
}

// maxLevels is how deep the objects of a request are nested.
const maxLevels = 4

// readMembers reads the object in a body. An empty body has no members.
func readMembers(body []byte) (members, error) {
	m := members{of: map[string]any{}, wrong: &[]string{}}
	if len(body) == 0 {
		return m, nil
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	value, err := readValue(d, maxLevels)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("something follows its object")
		}
	}
	if err != nil {
		return m, mistake("the body is not JSON that is understood: %s", clip(err.Error()))
	}
	var is bool
	if m.of, is = value.(map[string]any); !is {
		return m, mistake("the body must be a JSON object")
	}
	return m, nil
}

// readValue reads value by value: a decoder would keep one of two members with the same name, and
// say nothing of the other.
func readValue(d *json.Decoder, levels int) (any, error) {
	token, err := d.Token()
	if err != nil {
		return nil, noEOF(err)
	}
	delim, opens := token.(json.Delim)
	if !opens {
		return token, nil
	}
	if levels == 0 {
		return nil, fmt.Errorf("it is nested more than %d levels deep", maxLevels)
	}
	if delim == '[' {
		all := []any{}
		for d.More() {
			v, err := readValue(d, levels-1)
			if err != nil {
				return nil, err
			}
			all = append(all, v)
		}
		_, err = d.Token()
		return all, noEOF(err)
	}
	object := map[string]any{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, noEOF(err)
		}
		name := fmt.Sprint(token)
		if _, twice := object[name]; twice {
			return nil, fmt.Errorf("%s is given twice", clip(name))
		}
		if object[name], err = readValue(d, levels-1); err != nil {
			return nil, err
		}
	}
	_, err = d.Token()
	return object, noEOF(err)
}

// has says whether there is such a member, and that it is known.
func (m *members) has(name string) (any, bool) {
	m.known = append(m.known, name)
	v, there := m.of[name]
	return v, there
}

func (m *members) mistake(format string, args ...any) {
	*m.wrong = append(*m.wrong, fmt.Sprintf(format, args...))
}

// text is a member that is a text and not empty; empty: there is none.
func (m *members) text(name string) string {
	v, there := m.has(name)
	text, is := v.(string)
	switch {
	case there && !is:
		m.mistake("%s%s must be a text", m.where, name)
	case there && text == "":
		m.mistake("%s%s is empty: leave it out, or say what is meant", m.where, name)
	}
	return text
}

// part is a member that is bytes of a record: a text, or base64 where the member that is named
// encoding says so, or null. Nil: there is none.
func (m *members) part(name, encoding string) *[]byte {
	v, there := m.has(name)
	kind := m.text(encoding)
	if !there {
		if kind != "" {
			m.mistake("%s%s is given, and no %s", m.where, encoding, name)
		}
		return nil
	}
	if v == nil && kind == "" {
		return new([]byte)
	}
	text, is := v.(string)
	b := []byte(text)
	switch {
	case !is:
		m.mistake("%s%s must be a text, or null without %s", m.where, name, encoding)
	case kind == "base64":
		var err error
		if b, err = base64.StdEncoding.Strict().DecodeString(text); err != nil {
			m.mistake("%s%s is not base64: %s", m.where, name, err)
		}
	case kind != "" && kind != "text":
		m.mistake("%s%s must be text or base64, not %q", m.where, encoding, clip(kind))
	// Whoever reads JSON puts this sign in the place of what is no text.
	case strings.ContainsRune(text, utf8.RuneError):
		m.mistake("%s%s has U+FFFD in it, which may stand for bytes that are no text: give it as base64", m.where, name)
	}
	return &b
}

// flag is a member that is true or false; nil: there is none.
func (m *members) flag(name string) *bool {
	v, there := m.has(name)
	if !there {
		return nil
	}
	is, ok := v.(bool)
	if !ok {
		m.mistake("%s%s must be true or false", m.where, name)
	}
	return &is
}

// number is a member that is a whole number from least to most, which [math.MaxInt] leaves open;
// nil: there is none.
func (m *members) number(name string, least, most int) *int {
	v, there := m.has(name)
	if !there {
		return nil
	}
	text, _ := v.(json.Number)
	var n int
	if _, err := fmt.Sscan(text.String(), &n); err != nil || !wholeNumber.MatchString(text.String()) || n < least || n > most {
		upTo := "on"
		if most < math.MaxInt {
			upTo = fmt.Sprintf("to %d", most)
		}
		m.mistake("%s%s must be a whole number from %d %s", m.where, name, least, upTo)
	}
	return &n
}

// object is a member that is an object; its mistakes are those of m.
func (m *members) object(name string) (members, bool) {
	v, there := m.has(name)
	if !there {
		return members{}, false
	}
	of, is := v.(map[string]any)
	if !is {
		m.mistake("%s%s must be an object", m.where, name)
	}
	return members{where: m.where + name + ".", of: of, wrong: m.wrong}, is
}

// objects are those of a member that is a list of them; nil and false: there is none.
func (m *members) objects(name string) (all []members, there bool) {
	v, there := m.has(name)
	if !there {
		return nil, false
	}
	list, is := v.([]any)
	for i, one := range list {
		of, isObject := one.(map[string]any)
		is = is && isObject
		all = append(all, members{where: fmt.Sprintf("%s%s[%d].", m.where, name, i), of: of, wrong: m.wrong})
	}
	if !is {
		m.mistake("%s%s must be a list of objects", m.where, name)
		return nil, false
	}
	return all, true
}

// rest makes a mistake of each member that nobody has asked for.
func (m *members) rest() {
	for _, name := range slices.Sorted(maps.Keys(m.of)) {
		if slices.Contains(m.known, name) {
			continue
		}
		*m.wrong = append(*m.wrong, notKnown("member "+m.where, name, m.known))
	}
}

// mostTold is how many mistakes are told: a large body may have more than anybody reads.
const mostTold = 20

// err is all mistakes at once.
func (m *members) err() error {
	told := *m.wrong
	if len(told) == 0 {
		return nil
	}
	if more := len(told) - mostTold; more > 0 {
		told = append(told[:mostTold:mostTold], fmt.Sprintf("and %d mistakes more", more))
	}
	return mistake("%s", strings.Join(told, "; "))
}
