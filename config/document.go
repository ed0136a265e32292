package config

import (
	"fmt"
	"io"
	"reflect"
	"strings"
)

const preface = `# Configuration

<!-- generated from package config: go generate ./config -->

Layers, later ones win: the defaults below; what the code sets in ` + "`App.Streams[…].Config`" + `; a YAML file, named by ` + "`CONFIG_FILE`" + `; environment variables. A stream's own value wins over the shared one of the same name, wherever either stands.
A variable's name is the setting's path in capitals joined by ` + "`_`" + `: ` + "`retry.count`" + ` is ` + "`RETRY_COUNT`" + `, and for stream ` + "`orders`" + ` alone ` + "`STREAMS_ORDERS_RETRY_COUNT`" + `; a ` + "`-`" + ` in a stream-id becomes ` + "`_`" + `. ` + "`App.EnvPrefix`" + ` stands before all of them. An empty variable counts as not set.
Every secret can come from a file: ` + "`SERVER_TOKEN_FILE=/run/secrets/token`" + `. Everything below ` + "`app`" + ` but the name is your own: read it with ` + "`env.Config.Unmarshal`" + `.
All mistakes are reported at once. A setting in the file that does not exist is a mistake; a variable that begins like one of ours and does not exist is a warning. ` + "`./your-actor config`" + ` prints every setting, its value, and where it came from.
`

// Document writes the documentation of all settings in Markdown.
func Document(w io.Writer) error {
	var b strings.Builder
	b.WriteString(preface)
	var c Config
	table(&b, "Once per actor", fields(reflect.ValueOf(&c).Elem(), ""))
	all := fields(reflect.ValueOf(&c.Defaults).Elem(), "")
	var shared, own []field
	for _, f := range all {
		if f.onlyStreams() {
			f.path = "streams.<id>." + f.path
			own = append(own, f)
			continue
		}
		shared = append(shared, f)
	}
	table(&b, "For each stream", own)
	table(&b, "For all streams, or with `STREAMS_<ID>_` before the name for one", shared)
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write documentation: %w", err)
	}
	return nil
}

func table(b *strings.Builder, title string, fields []field) {
	fmt.Fprintf(b, "\n## %s\n\n| variable | default | what |\n|---|---|---|\n", title)
	for _, f := range fields {
		value := f.tag.Get("default")
		if value != "" {
			value = "`" + value + "`"
		}
		doc := strings.ReplaceAll(f.tag.Get("doc"), "|", `\|`)
		if f.secret() {
			doc += " Secret."
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", variable(f.path), value, doc)
	}
}
