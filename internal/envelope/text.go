package envelope

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// clean makes one line of valid UTF-8 without control characters of s, cut at a rune to at most max
// bytes: error texts come from anywhere and end up in logs, headers and terminals.
func clean(s string, max int) string { return cleanKeeping(s, max, "") }

// cleanLines is clean for text of several lines.
func cleanLines(s string, max int) string { return cleanKeeping(s, max, "\n\t") }

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
