package config

import (
	"reflect"
	"strings"
)

// field is one setting of a struct.
type field struct {
	path  string // say retry.count
	value reflect.Value
	tag   reflect.StructTag
}

func (f field) secret() bool      { return f.tag.Get("secret") != "" }
func (f field) onlyStreams() bool { return f.tag.Get("stream") == "only" }

// fields lists the settings of the struct in their order, without the streams and what they share,
// and without channels.
func fields(v reflect.Value, prefix string) []field {
	var all []field
	for i := range v.NumField() {
		tag := v.Type().Field(i).Tag
		key := tag.Get("key")
		if key == "" || key == "streams" || key == "channels" {
			continue
		}
		path := join(prefix, key)
		if v.Field(i).Kind() == reflect.Struct {
			all = append(all, fields(v.Field(i), path)...)
			continue
		}
		all = append(all, field{path, v.Field(i), tag})
	}
	return all
}

// join puts a key below a path.
func join(prefix, key string) string {
	if prefix == "" {
		return key
	}
	return prefix + "." + key
}

// variable is the environment variable of a setting, without the app's prefix.
func variable(path string) string {
	return strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(path))
}
