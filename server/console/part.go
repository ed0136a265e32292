package console

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"
)

// part is the value, the key or the headers of a message that is edited, as a form has it. A form
// keeps text alone, and makes one of all ends of lines. So a part is in it only where it is text
// whose lines all end in the same way, which is given back to it; and where it fits.
type part struct {
	// Name is value, key or headers.
	Name string
	// Text is what its field has, with line feeds alone, Null whether it is to be none.
	Text string
	Null bool
	// was, wasNull and crlf are what the message has, and whether its lines end with CR LF.
	was     string
	wasNull bool
	crlf    bool
	// Why says why it is not in the form; empty: it is.
	Why string
}

// valuePart reads the value.
func (v v1) valuePart(r *http.Request, e *editing) (*part, error) {
	switch {
	case e.ValueError != "":
		return &part{Name: "value", Why: e.ValueError}, nil
	case e.Encoding == "":
		return partOf("value", nil, 0, e.limit), nil
	}
	q := e.at.where()
	q.Set("part", "value")
	first, size, err := v.head(r, e.path(), q, int(e.limit.bytes))
	if err != nil {
		return nil, err
	}
	if first == nil {
		first = []byte{}
	}
	return partOf("value", first, size, e.limit), nil
}

// keyPart is the key.
func (e *editing) keyPart() *part {
	switch {
	case e.Key == nil:
		return partOf("key", nil, 0, e.limit)
	case e.KeyEncoding == "base64":
		return &part{Name: "key", Why: notText}
	}
	return partOf("key", []byte(*e.Key), max(int(e.KeySize), len(*e.Key)), e.limit)
}

const notText = "it is no text"

// partOf is a part of so many bytes, of which those at hand are the first; nil: there is none. A
// form makes up to three bytes of one.
func partOf(name string, b []byte, size int, most formLimit) *part {
	p := &part{Name: name, Null: b == nil, wasNull: b == nil}
	text := string(b)
	switch ends := strings.Count(text, "\n"); {
	case int64(size) > most.bytes/3 || size > len(b):
		p.Why = fmt.Sprintf("it has %s bytes, which is more than a third of %s", number(size), most.setting)
	case !utf8.ValidString(text) || strings.ContainsAny(text, "\x00\uFFFD"):
		p.Why = notText
	case strings.Contains(text, "\r") && (strings.Count(text, "\r") != ends || strings.Count(text, "\r\n") != ends):
		p.Why = "its lines end in different ways, of which a form makes one"
	default:
		p.Text, p.crlf = lines(text), strings.Contains(text, "\r")
		p.was = p.Text
	}
	return p
}

// headersPart are the headers as /v1 takes them: JSON, a line for each.
func (e *editing) headersPart() *part {
	type given struct {
		Key         string  `json:"key"`
		KeyEncoding string  `json:"key_encoding,omitempty"`
		Value       *string `json:"value"`
		Encoding    string  `json:"encoding,omitempty"`
	}
	// What stands for bytes that are no text is not taken as text.
	encoded := func(text, encoding string) (string, string) {
		switch {
		case encoding == "base64":
			return text, encoding
		case strings.ContainsRune(text, utf8.RuneError):
			return base64.StdEncoding.EncodeToString([]byte(text)), "base64"
		}
		return text, ""
	}
	all := make([]given, 0, len(e.Headers))
	for _, h := range e.Headers {
		if h.Truncated {
			return &part{Name: "headers", Why: fmt.Sprintf("one of them has %s bytes", number(h.Size))}
		}
		var one given
		one.Key, one.KeyEncoding = encoded(h.Key, h.KeyEncoding)
		if h.Value != nil {
			value, encoding := encoded(*h.Value, h.Encoding)
			one.Value, one.Encoding = &value, encoding
		}
		all = append(all, one)
	}
	var b bytes.Buffer
	to := json.NewEncoder(&b)
	to.SetEscapeHTML(false)
	err := to.Encode(all)
	text, wrong := oneEach(b.String())
	if err := errors.Join(err, wrong); err != nil {
		return &part{Name: "headers", Why: err.Error()}
	}
	return partOf("headers", []byte(text), len(text), e.limit)
}

// oneEach is a list in JSON with a line for each of its members, which are as they were but for
// spaces between their words: so headers that were only laid out anew were not changed, and a
// difference is of lines that can be compared.
func oneEach(text string) (string, error) {
	var all []json.RawMessage
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return "", fmt.Errorf("headers are no list in JSON, such as [{\"key\": \"tenant\", \"value\": \"a\"}]: %w", err)
	}
	if len(all) == 0 {
		return "[]", nil
	}
	var b bytes.Buffer
	for i, one := range all {
		b.WriteString(map[bool]string{true: "[\n  ", false: ",\n  "}[i == 0])
		if err := json.Compact(&b, one); err != nil {
			return "", fmt.Errorf("headers: %w", err)
		}
	}
	b.WriteString("\n]")
	return b.String(), nil
}

// lines is a text with line feeds at the end of its lines, whatever a browser made of them.
func lines(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
}

// take is what a form has of it.
func (p *part) take(text string, null bool) error {
	if p.Why != "" {
		return fmt.Errorf("%s: not edited here, since %s", p.Name, p.Why)
	}
	p.Text, p.Null = text, null
	switch {
	case null && p.Name == "headers":
		return errors.New("headers are never null: [] is none of them")
	case null && text != "":
		return fmt.Errorf("%s is a text, and null: empty its field, or untick null", p.Name)
	case !utf8.ValidString(text) || strings.ContainsAny(text, "\x00\uFFFD"):
		return fmt.Errorf("%s has U+FFFD or NUL in it, which stand for what is no text", p.Name)
	case p.Name == "headers":
		laid, err := oneEach(text)
		if err != nil {
			return err
		}
		p.Text = laid
	}
	return nil
}

// changed says that somebody made something else of it. An empty text is not null.
func (p *part) changed() bool { return p.Why == "" && (p.Text != p.was || p.Null != p.wasNull) }

// bytes are those that the record is to have, whose lines end as they did before.
func (p *part) bytes() []byte {
	if p.crlf {
		return []byte(strings.ReplaceAll(p.Text, "\n", "\r\n"))
	}
	return []byte(p.Text)
}

// Title is its name for a heading.
func (p *part) Title() string { return strings.ToUpper(p.Name[:1]) + p.Name[1:] }

// Rows is how high its field is at first.
func (p *part) Rows() int {
	least := map[string]int{"value": 8, "headers": 3}[p.Name]
	return min(max(least, 1+strings.Count(p.Text, "\n")), 24)
}

// change is what a person is shown of a part that is to become another.
type change struct {
	Name, Title   string
	Before, After side
}

// side is one of them: what is the same on both sides, around what is not.
type side struct {
	Lead, Own, Tail string
	Null            bool
	Size            int
}

const (
	// around is how much of what is the same is shown on each side, and maxOwn how much of what is
	// not, in bytes.
	around = 200
	maxOwn = 16 << 10
)

// change is the difference between what the message has and what it is to have: from the first
// character to the last that is not the same.
func (p *part) change() change {
	lead, tail := 0, 0
	// Where a text ends it has U+FFFD, which none of them has.
	for a, b := p.was, p.Text; ; {
		x, n := utf8.DecodeRuneInString(a[lead:])
		if y, _ := utf8.DecodeRuneInString(b[lead:]); n == 0 || x != y {
			break
		}
		lead += n
	}
	for a, b := p.was[lead:], p.Text[lead:]; ; {
		x, n := utf8.DecodeLastRuneInString(a[:len(a)-tail])
		if y, _ := utf8.DecodeLastRuneInString(b[:len(b)-tail]); n == 0 || x != y {
			break
		}
		tail += n
	}
	of := func(text string, null bool) side {
		s := side{Lead: text[:lead], Own: clip(text[lead:len(text)-tail], maxOwn), Tail: clip(text[len(text)-tail:], around), Null: null, Size: len(text)}
		if strings.TrimSpace(s.Own) == "" { // nobody would see the end of a line
			s.Own = strings.ReplaceAll(s.Own, "\n", "↵\n")
		}
		if cut := len(s.Lead) - around; cut > 0 {
			s.Lead = "…" + strings.ToValidUTF8(s.Lead[cut:], "")
		}
		if p.crlf {
			s.Size += strings.Count(text, "\n")
		}
		return s
	}
	return change{p.Name, p.Title(), of(p.was, p.wasNull), of(p.Text, p.Null)}
}
