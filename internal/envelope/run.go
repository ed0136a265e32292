package envelope

import (
	"strconv"
	"strings"
	"time"
)

// Run is how and where a try was made, for people: nothing follows from it. What cannot be read of
// it is left out, so that it never breaks an envelope.
type Run struct {
	// Took is how long the call took; 0: not known.
	Took time.Duration
	// By is the process, as [By] names it.
	By string
	// Span is "trace id-span id" of the try, as its W3C trace context has it; empty: it had none.
	Span string
}

// maxBy bounds the instance and the version that a try tells, each in bytes.
const maxBy = 64

// maxRun bounds a line that is read.
const maxRun = 1 << 10

// By names a process by its instance and the version of the app. It is as the head has it, so that
// a failure costs no more than to copy it.
func By(instance, version string) string {
	b := append(appendPart(nil, instance), '/')
	return string(appendPart(b, version))
}

// Process is what By says.
func (r Run) Process() (instance, version string) {
	instance, version, _ = strings.Cut(r.By, "/")
	return part(instance), part(version)
}

// Trace are the ids in the Span; empty: it is none.
func (r Run) Trace() (trace, span string) {
	trace, span, _ = strings.Cut(r.Span, "-")
	if len(trace) != 32 || len(span) != 16 || strings.Trim(trace+span, "0123456789abcdef") != "" {
		return "", ""
	}
	return trace, span
}

// SpanOf is the Span of a try with that W3C trace context.
func SpanOf(traceParent string) string {
	const version, ids = len("00-"), 32 + len("-") + 16
	if len(traceParent) < version+ids {
		return ""
	}
	return traceParent[version : version+ids]
}

// A run is written as key/took/span/instance/version. The key is the end of the time at which the
// try ended: a program that does not know runs keeps the one that it finds, though another try
// came since.
const keys = 1_000_000 // milliseconds, a quarter of an hour

func keyOf(ended time.Time) int64 { return ended.UnixMilli() % keys }

// appendRun appends the run of a try that ended then, but for the process.
func appendRun(b []byte, ended time.Time, r Run) []byte {
	b = append(strconv.AppendInt(b, keyOf(ended), 10), '/')
	b = append(strconv.AppendInt(b, r.Took.Microseconds(), 10), "us/"...)
	return append(append(b, r.Span...), '/')
}

// readRun reads a run; rest is what stands behind it.
func readRun(text string) (key int64, r Run, rest string, ok bool) {
	if len(text) > maxRun || !plain(text) {
		return 0, Run{}, "", false
	}
	of, text, _ := strings.Cut(text, "/")
	took, text, _ := strings.Cut(text, "/")
	r.Span, text, _ = strings.Cut(text, "/")
	// The process is two parts with the slash between them, and the last of the head.
	slash := strings.IndexByte(text, '/')
	end := slash + 1 + strings.IndexByte(text[slash+1:], '/')
	if end <= slash {
		end = len(text)
	}
	if r.By = text[:end]; r.By == "/" {
		r.By = ""
	}
	rest = strings.TrimPrefix(text[end:], "/")
	key, err := strconv.ParseInt(of, 10, 64)
	if err != nil {
		return 0, Run{}, "", false
	}
	r.Took, err = time.ParseDuration(took)
	return key, r, rest, err == nil && r.Took >= 0
}

// appendPart appends a text without its slashes.
func appendPart(b []byte, text string) []byte {
	return appendEscaped(b, strings.ReplaceAll(clean(text, maxBy), "/", "_"))
}

func part(text string) string {
	clear, err := unescape(text)
	if err != nil {
		return ""
	}
	return clear
}

// sameBy stands for the process, or the type, of the line before.
const sameBy = "="

// runs are how the tries of a history were made, a line each, and the types of their errors:
// without this the line of a history has no place for them. Empty: nothing is known.
func runs(history []Try) string {
	b, by, of := make([]byte, 0, 64*len(history)), "", ""
	for _, t := range history {
		if t.Run == (Run{}) && t.ErrorType == "" {
			continue
		}
		if len(b) > 0 {
			b = append(b, '\n')
		}
		b = appendRun(b, t.At, t.Run)
		if by == t.By && by != "" {
			b = append(b, sameBy+"/"...)
		} else if by = t.By; by == "" {
			b = append(b, '/')
		} else {
			b = append(b, by...)
		}
		b = append(b, '/')
		if of == t.ErrorType && of != "" {
			b = append(b, sameBy...)
		} else if of = t.ErrorType; of != "" {
			b = appendEscaped(b, clean(of, maxShort))
		}
	}
	return string(b)
}

// readRuns adds to a history what its header of runs says.
func readRuns(history []Try, text string) {
	by, of := "", ""
	for text != "" {
		var line string
		line, text, _ = strings.Cut(text, "\n")
		key, r, kind, ok := readRun(line)
		if !ok {
			return
		}
		if r.By == sameBy+"/" {
			r.By = by
		}
		if kind == sameBy {
			kind = of
		}
		by, of = r.By, kind
		for i := range history {
			if keyOf(history[i].At) == key {
				history[i].Run, history[i].ErrorType = r, part(kind)
			}
		}
	}
}

// ran gives the run that the head has to the try that it is of.
func (e *Envelope) ran(text string) {
	key, r, _, ok := readRun(text)
	switch {
	case !ok:
	case !e.Failure.At.IsZero() && keyOf(e.Failure.At) == key:
		e.Failure.Run = r
	default:
		for i := range e.History {
			if keyOf(e.History[i].At) == key {
				e.History[i].Run = r
			}
		}
	}
}
