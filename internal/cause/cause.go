// Package cause groups dead messages by what killed them: two messages are of one group when their
// errors differ only in ids, numbers, addresses and times.
package cause

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode"
	"unicode/utf8"
)

// version is part of each fingerprint, so that a group of other rules is another group: a filter by
// it then finds nothing, instead of something else.
const version = "1"

// maxText is how much of an error's first line counts, in bytes.
const maxText = 300

// Death is what is known of how a message died.
type Death struct {
	// Reason is one of stepwell's Reason constants, ErrorType the Go type of the error.
	Reason, ErrorType string
	// Error is the error's text, Stack that of a panic; empty where there was none.
	Error, Stack string
	// Named is what the error itself calls its cause; empty: it does not, and its text decides.
	Named string
}

// Group is the fingerprint of the death's cause, 12 hexadecimal digits, and the pattern that all
// deaths of the group share: the error with what varies replaced by <n>, and an ellipsis where it
// goes on.
func (d Death) Group() (fingerprint, pattern string) {
	pattern, goesOn := d.pattern()
	sum := sha256.Sum256([]byte(strings.Join([]string{version, d.Reason, d.ErrorType, d.Named, pattern}, "\x00")))
	if goesOn {
		pattern += "…"
	}
	return hex.EncodeToString(sum[:6]), pattern
}

// pattern is what the error calls its cause. Else it is the place of a panic where that is known,
// since its text often is a value; else that of the text, whose line may go on.
func (d Death) pattern() (pattern string, goesOn bool) {
	if d.Named != "" {
		return d.Named, false
	}
	if place := panicked(d.Stack); place != "" && d.ErrorType == "panic" {
		return "panic in " + place, false
	}
	return Pattern(d.Error), len(firstLine(d.Error)) > maxText
}

// panicked returns the function that panicked: the first one of the stack that is neither the
// runtime's nor this framework's. The stack is in the form of [runtime/debug.Stack], perhaps cut.
func panicked(stack string) string {
	for line := range strings.Lines(stack) {
		if strings.HasPrefix(line, "goroutine ") || strings.HasPrefix(line, "\t") {
			continue
		}
		name := strings.TrimSpace(line)
		if end := strings.LastIndexByte(name, '('); end > 0 { // its arguments are addresses
			name = name[:end]
		}
		if name == "" || isOurs(name) {
			continue
		}
		return name
	}
	return ""
}

func isOurs(function string) bool {
	const module = "github.com/stepwell/stepwell"
	for _, prefix := range []string{"runtime.", "runtime/", "panic", "internal/", module + ".", module + "/internal/", module + "/actor."} {
		if strings.HasPrefix(function, prefix) {
			return true
		}
	}
	return false
}

// Pattern is the first line of an error's text, 300 bytes of it, in which each word that has a
// digit is <n>. Some words keep theirs, since they say what went wrong, and not to whom: a number
// or an SQLSTATE behind one of the words status, code, http, errno, sqlstate and error, and a name
// such as s3 or ipv4: letters that end in one or two digits, seven characters at most.
func Pattern(text string) string {
	text = firstLine(text)
	text = strings.ToValidUTF8(text[:min(len(text), maxText)], "")
	var out strings.Builder
	before := "" // the last word, in lower case
	for text != "" {
		size := wordSize(text)
		if size == 0 {
			_, n := utf8.DecodeRuneInString(text)
			out.WriteString(text[:n])
			text = text[n:]
			continue
		}
		word := text[:size]
		text = text[size:]
		if !hasDigit(word) || isCode(before, word) || isName(word) {
			out.WriteString(word)
		} else {
			out.WriteString("<n>")
		}
		before = strings.ToLower(word)
	}
	return out.String()
}

// firstLine is the first line that is not empty.
func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return strings.TrimRight(line, "\r")
}

// wordSize is how many bytes the word at the start of the text has; 0: the text starts with what
// stands between words. A word may have marks inside, as ids, addresses and times do, but none at
// its end.
func wordSize(text string) int {
	end := 0
	for i, r := range text {
		switch {
		case isLetter(r) || isDigit(r):
			end = i + utf8.RuneLen(r)
		case i > 0 && strings.ContainsRune("-._:@%+", r):
		default:
			return end
		}
	}
	return end
}

// isLetter says that the rune is a letter of a script with spaces between words: only those have
// upper and lower case.
func isLetter(r rune) bool { return unicode.IsLower(r) || unicode.IsUpper(r) }

func isDigit(r rune) bool { return r >= '0' && r <= '9' }

func hasDigit(word string) bool { return strings.ContainsFunc(word, isDigit) }

// isCode says that the word is a number, or an SQLSTATE, that the word before it announces.
func isCode(before, word string) bool {
	switch before {
	case "status", "code", "http", "errno", "sqlstate", "error":
	default:
		return false
	}
	number := !strings.ContainsFunc(word, func(r rune) bool { return !isDigit(r) })
	const sqlState = 5
	state := len(word) == sqlState && !strings.ContainsFunc(word, func(r rune) bool { return !isDigit(r) && (r < 'A' || r > 'Z') })
	return number || state
}

// isName says that the word is letters and then one or two digits, such as s3 or ipv4.
func isName(word string) bool {
	const most = 7
	name := strings.TrimRightFunc(word, isDigit)
	digits := len(word) - len(name)
	return name != "" && len(word) <= most && digits <= 2 && !strings.ContainsFunc(name, func(r rune) bool { return !isLetter(r) })
}
