package console

import (
	"fmt"
	"html/template"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// functions are those that templates call.
func functions(setting func(string) string) template.FuncMap {
	return template.FuncMap{
		"num": func(n any) string { return number(reflect.Indirect(reflect.ValueOf(n)).Int()) }, "when": when, "ago": ago, "stamp": stamp, "bytes": size, "brief": brief, "spark": spark, "count": count[int],
		"causes": func(at choice, groups []group, act bool, unsorted int, here unfinished) causes {
			return causes{at, groups, act, unsorted > 0, here}
		},
		"short": short, "visible": visible, "hides": func(text string) bool { return visible(text) != text },
		"now":     func() string { return time.Now().UTC().Format(time.TimeOnly) },
		"setting": setting,
		"views":   func() []string { return []string{"json", "raw", "hex"} },
	}
}

// number is 94,120.
func number[N int | int32 | int64](n N) string {
	digits := strconv.FormatInt(int64(n), 10)
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 && digits[i-1] != '-' {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}

// count is 94,120 messages, or 1 message.
func count[N int | int64](n N, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return number(n) + " " + one + "s"
}

// when is a time for people, in UTC as in logs.
func when(t time.Time) string {
	if t.IsZero() {
		return "not known"
	}
	return t.UTC().Format("2006-01-02 15:04:05")
}

// stamp is a time for programs, to the nanosecond.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// ago is how long ago a time was, roughly.
func ago(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return lasting(time.Since(t)) + " ago"
}

// lasting is a length of time in its largest unit.
func lasting(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d >= 2*day:
		return fmt.Sprintf("%d days", d/day)
	case d >= 2*time.Hour:
		return fmt.Sprintf("%d h", d/time.Hour)
	case d >= 2*time.Minute:
		return fmt.Sprintf("%d min", d/time.Minute)
	}
	return fmt.Sprintf("%d s", max(0, d/time.Second))
}

// size is a number of bytes.
func size(n int64) string {
	const kib = 1 << 10
	switch {
	case n >= kib*kib:
		return fmt.Sprintf("%.1f MiB", float64(n)/kib/kib)
	case n >= kib:
		return fmt.Sprintf("%.1f KiB", float64(n)/kib)
	}
	return count(n, "byte")
}

// brief is the beginning of a text, for a row of a table.
func brief(text string) string {
	return clip(visible(strings.Join(strings.Fields(clip(text, 4*300)), " ")), 300)
}

// short is the class of a name that is short enough to stay in one line, whatever the width.
func short(name string) string {
	const most = 32 // bytes: letters that take more of them are wider, too
	if len(visible(name)) <= most {
		return "short"
	}
	return ""
}

// visible is a text in which what cannot be seen, or turns round what stands behind it, is written
// as in a string of JSON: \u202e. Tabs and the ends of lines stay.
func visible(text string) string {
	var b strings.Builder
	for i, r := range text {
		switch {
		case r == '\n', r == '\t', r == '\r' && strings.HasPrefix(text[i:], "\r\n"), !unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp):
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, "\\U%08x", r)
		default:
			fmt.Fprintf(&b, "\\u%04x", r)
		}
	}
	return b.String()
}

// clip is a text of at most so many bytes, and no half character.
func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
