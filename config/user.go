package config

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/go-viper/mapstructure/v2"
	"github.com/knadh/koanf/v2"
)

// Unmarshal decodes the user's own settings, everything below "app" but its name, into v, a pointer
// to a struct with koanf tags or to a map. A path selects a part: "db" is what stands below app.db.
// Variables win over the file and have the name of the path, as all do: pool_size in db is
// APP_DB_POOL_SIZE. Lists are separated by commas. Below a map, which has no names to go by, a
// variable's name is lower-cased and each underscore begins a new level. Errors never repeat
// values, which may be secrets.
func (c *Config) Unmarshal(path string, v any) error {
	if err := c.unmarshal(path, v); err != nil {
		return fmt.Errorf("settings below %s: %w", below(path), err)
	}
	return nil
}

// below is where the user's path stands among all.
func below(path string) string { return strings.TrimSuffix(join("app", path), ".") }

func (c *Config) unmarshal(path string, v any) error {
	target := reflect.ValueOf(v)
	if target.Kind() != reflect.Pointer || target.IsNil() {
		return fmt.Errorf("need a pointer to a struct or map, not %T", v)
	}
	k := koanf.New(".")
	// A copy, so that Unmarshal may be called again.
	if err := k.Merge(c.user.Copy()); err != nil {
		return err
	}
	k.Delete("name")
	if err := c.overlay(k, path, target.Type().Elem(), 0); err != nil {
		return err
	}
	if err := k.Unmarshal(path, v); err != nil {
		return errors.New(strings.Join(harmless(err), "; "))
	}
	return nil
}

// overlay sets what the environment says about a value of type t at path.
func (c *Config) overlay(k *koanf.Koanf, path string, t reflect.Type, depth int) error {
	const deepest = 16 // of types that contain themselves
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	name := variable(below(path))
	switch {
	case depth > deepest:
		return nil
	case t.Kind() == reflect.Struct && !isText(t):
		for i := range t.NumField() {
			if err := c.overlayField(k, path, t.Field(i), depth); err != nil {
				return err
			}
		}
		return nil
	case t.Kind() == reflect.Map, t.Kind() == reflect.Interface:
		return c.overlayTree(k, path, name)
	}
	text, set := c.own[name]
	switch {
	case !set:
		return nil
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8 && !isText(t):
		list, err := texts(text)
		return errors.Join(err, k.Set(path, list))
	}
	return k.Set(path, text)
}

// overlayField goes on with one field, under the name that koanf has for it.
func (c *Config) overlayField(k *koanf.Koanf, path string, f reflect.StructField, depth int) error {
	tag, options, _ := strings.Cut(f.Tag.Get("koanf"), ",")
	switch {
	case !f.IsExported() && !f.Anonymous, tag == "-":
		return nil
	case slices.Contains(strings.Split(options, ","), "squash"):
		return c.overlay(k, path, f.Type, depth+1)
	case tag == "":
		tag = strings.ToLower(f.Name)
	}
	return c.overlay(k, join(path, tag), f.Type, depth+1)
}

// overlayTree sets all variables whose names begin with name, one level for each underscore.
func (c *Config) overlayTree(k *koanf.Koanf, path, name string) error {
	var names []string
	for v := range c.own {
		if v == name || strings.HasPrefix(v, name+"_") && v != "APP_NAME" {
			names = append(names, v)
		}
	}
	slices.Sort(names) // a level wins over a value of the same name
	for _, v := range names {
		at := path
		for part := range strings.SplitSeq(strings.TrimPrefix(v[len(name):], "_"), "_") {
			if part != "" {
				at = join(at, strings.ToLower(part))
			}
		}
		if at == "" {
			continue
		}
		if err := k.Set(at, c.own[v]); err != nil {
			return err
		}
	}
	return nil
}

// isText says whether values of t read themselves from text.
func isText(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// harmless are the decoder's complaints without the values.
func harmless(err error) []string {
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		several, ok := inner.(interface{ Unwrap() []error })
		if !ok {
			continue
		}
		var all []string
		for _, err := range several.Unwrap() {
			all = append(all, harmless(err)...)
		}
		return all
	}
	var decode *mapstructure.DecodeError
	var parse *mapstructure.ParseError
	var other *mapstructure.UnconvertibleTypeError
	name, says := "", "has a value that its type does not take"
	if errors.As(err, &decode) {
		name = decode.Name() + " "
	}
	switch {
	case errors.As(err, &parse):
		says = "is no " + parse.Expected.Type().String()
	case errors.As(err, &other):
		says = "is no " + other.Expected.Type().String()
	}
	return []string{name + says}
}
