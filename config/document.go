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
		if tag := v.Type().Field(i).Tag; tag.Get("title") != "" {
			table(&b, tag.Get("title"), fields(v.Field(i), tag.Get("key")))
		}
	}
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
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write documentation: %w", err)
	}
	return nil
}

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
