package envelope

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// clean makes one line of valid UTF-8 without control characters of s, cut at a rune to at most max
// bytes: error texts come from anywhere and end up in logs, headers and terminals.
func clean(s string, max int) string { return cleanKeeping(s, max, "") }

// abridged is clean for the text of an error. Of one that is too long three quarters are its
// beginning, by which causes are told apart, and the rest its end, which is what others wrap. An
// ellipsis stands for what is left out.
func abridged(s string, max int) string {
	const mark = " … "
	if len(s) <= max {
		if s = clean(s, utf8.UTFMax*max); len(s) <= max { // a byte that is no text becomes three
			return s
		}
	}
	head := max * 3 / 4
	tail := max - head - len(mark)
	return clean(s, head) + mark + end(clean(end(s, tail), utf8.UTFMax*max), tail)
}

// end is the last of s, from a rune on, of at most max bytes.
func end(s string, max int) string {
	from := len(s) - max
	if from <= 0 {
		return s
	}
	for i := from; i < len(s) && i < from+utf8.UTFMax; i++ {
		if utf8.RuneStart(s[i]) {
			return s[i:]
		}
	}
	return s[from:]
}

// cleanKeeping is clean for text in which those control characters may stay.
func cleanKeeping(s string, max int, keep string) string {
	if len(s) <= max && plain(s) {
		return s
	}
	// Before the work below: an error's text may have megabytes.
	s = cut(s, max+utf8.UTFMax) // what follows is never looked at
	s = strings.ToValidUTF8(s, string(utf8.RuneError))
	s = strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) && !strings.ContainsRune(keep, r) {
			return ' '
		}
		return r
	}, s)
	return cut(s, max)
}

// plain says that there is nothing to clean, as in most texts.
func plain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// cut shortens s to at most max bytes and does not end inside a rune.
func cut(s string, max int) string {
	if len(s) <= max {
		return s
	}
	// A rune has at most UTFMax bytes. What has no start within that many is no UTF-8, and is cut
	// anywhere.
	for i := max; i > max-utf8.UTFMax && i > 0; i-- {
		if utf8.RuneStart(s[i]) {
			return s[:i]
		}
	}
	return s[:max]
}
