package config

import (
	_ "embed" // the preface
	"fmt"
	"io"
	"reflect"
	"strings"
)

//go:embed preface.md
var preface string

// Document writes the documentation of all settings in Markdown.
func Document(w io.Writer) error {
	var b strings.Builder
	b.WriteString(preface)
	var c Config
	v := reflect.ValueOf(&c).Elem()
	for i := range v.NumField() {
		tag := v.Type().Field(i).Tag
		switch {
		case tag.Get("title") == "":
		case v.Field(i).Kind() == reflect.Struct:
			table(&b, tag.Get("title"), fields(v.Field(i), tag.Get("key")))
		default:
			table(&b, tag.Get("title"), []field{{tag.Get("key"), v.Field(i), tag}})
		}
	}
	// What all streams share has a variable without an id, too; what only a stream can have has
	// none.
	var own, shared, retries []field
	for _, f := range fields(reflect.ValueOf(&c.Defaults).Elem(), "") {
		switch {
		case f.onlyStreams():
			f.path = "streams.<id>." + f.path
			own = append(own, f)
		case strings.HasPrefix(f.path, "retry."):
			retries = append(retries, f)
		default:
			shared = append(shared, f)
		}
	}
	table(&b, "Each stream", own)
	table(&b, "All streams, or one with `STREAMS_<ID>_` before the name", shared)
	table(&b, "Retries of all streams, or of one with `STREAMS_<ID>_` before the name", retries)
	channels(&b)
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write documentation: %w", err)
	}
	return nil
}

// channels says which settings a channel may have of its own.
func channels(b *strings.Builder) {
	var names []string
	retries := false
	for _, f := range fields(reflect.ValueOf(&Channel{}).Elem(), "") {
		if retry := strings.HasPrefix(f.path, "retry."); !retry {
			names = append(names, "`"+variable(f.path)+"`")
		} else if !retries {
			retries = true
			names = append(names, "`RETRY_…`")
		}
	}
	fmt.Fprintf(b, "\n## Each channel\n\nA channel may have of its own, with `STREAMS_<ID>_CHANNELS_<CHANNEL>_` before the name: %s.\n"+
		"What it has not is its stream's. It always retries, and in queues: `RETRY_ENABLED=false` and `RETRY_IN_PLACE` of its stream, or of all, are not for it, and of its own they are mistakes.\n", strings.Join(names, ", "))
}

// table writes one table of the page. A "|" would end a cell, and a "<" begin a tag.
func table(b *strings.Builder, title string, fields []field) {
	fmt.Fprintf(b, "\n## %s\n\n| variable | default | what |\n|---|---|---|\n", title)
	escape := strings.NewReplacer("|", `\|`, "<", "&lt;")
	for _, f := range fields {
		value := f.tag.Get("default")
		if value != "" {
			value = "`" + value + "`"
		}
		doc := escape.Replace(f.tag.Get("doc"))
		if f.secret() {
			doc += " Secret."
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", variable(f.path), value, doc)
	}
}
