package config

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/go-viper/mapstructure/v2"
	"github.com/knadh/koanf/v2"

	"github.com/stepwell/stepwell/internal/spelling"
)

// Unmarshal decodes the user's own settings, everything below "app" but its name, into v, a pointer
// to a struct with koanf tags or to a map. A path selects a part: "db" is what stands below app.db.
// Variables win over the file and have the name of the path, as all do: pool_size in db is
// APP_DB_POOL_SIZE. Lists are separated by commas. Below a map, which has no names to go by, a
// variable's name is lower-cased and each underscore begins a new level. A field of whole numbers
// with the tag unit:"bytes" takes sizes such as 64KiB, too; a duration without a unit is a mistake,
// but in a list or map of structs. Errors never repeat values, which may be secrets.
func (c *Config) Unmarshal(path string, v any) error {
	if err := c.unmarshal(path, v); err != nil {
		return fmt.Errorf("settings below %s: %w", below(path), err)
	}
	return nil
}

// below is where the user's path stands among all.
func below(path string) string { return strings.TrimSuffix(join("app", path), ".") }

// UnmarshalStrict is as [Config.Unmarshal], and what stands below the path and v does not take is
// a mistake: a variable with a letter too few would leave open what somebody wanted closed. v has
// what could be decoded, whatever the error, of which each mistake is a line.
func (c *Config) UnmarshalStrict(path string, v any) error {
	err := c.Unmarshal(path, v)
	target := reflect.TypeOf(v)
	if target == nil || target.Kind() != reflect.Pointer {
		return err
	}
	var known taken
	known.add(path, target.Elem(), 0)
	// Not what Unmarshal made of both: there a level hides a value of the same name.
	var unknown []string
	for _, key := range c.user.Keys() {
		if within := path == "" || strings.HasPrefix(key, path+"."); within && key != "name" && !known.has(key, ".") {
			unknown = append(unknown, below(key)+" is not known"+spelling.Meant(below(key), known.below()))
		}
	}
	variables := known.variables()
	for name := range c.own {
		within := strings.HasPrefix(name, variable(below(path))+"_")
		if within && name != "APP_NAME" && !kubernetes.MatchString(name) && !variables.has(name, "_") {
			unknown = append(unknown, c.prefix+name+" is not known"+spelling.Meant(c.prefix+name, variables.all(c.prefix)))
		}
	}
	slices.Sort(unknown)
	for _, text := range unknown {
		err = errors.Join(err, errors.New(text))
	}
	return err
}

// taken are the names that a type has a place for, and those of maps, which take all below them.
type taken struct{ values, trees []string }

// add adds the names of a value of type t at path.
func (k *taken) add(path string, t reflect.Type, depth int) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case depth > deepest:
	case t.Kind() == reflect.Struct && !isText(t):
		for i := range t.NumField() {
			if at, ok := place(path, t.Field(i)); ok {
				k.add(at, t.Field(i).Type, depth+1)
			}
		}
	case t.Kind() == reflect.Map, t.Kind() == reflect.Interface:
		k.trees = append(k.trees, path)
	default:
		k.values = append(k.values, path)
	}
}

// has says whether a name has a place; sep is what stands between levels.
func (k *taken) has(name, sep string) bool {
	return slices.Contains(k.values, name) || slices.ContainsFunc(k.trees, func(tree string) bool {
		return tree == "" || name == tree || strings.HasPrefix(name, tree+sep)
	})
}

// variables are the same names, as variables.
func (k *taken) variables() taken {
	var as taken
	for _, path := range k.values {
		as.values = append(as.values, variable(below(path)))
	}
	for _, path := range k.trees {
		as.trees = append(as.trees, variable(below(path)))
	}
	return as
}

// all are the names with a prefix.
func (k *taken) all(prefix string) (names []string) {
	for _, name := range slices.Concat(k.values, k.trees) {
		names = append(names, prefix+name)
	}
	return names
}

// below are the names as they stand in a file.
func (k *taken) below() (names []string) {
	for _, path := range slices.Concat(k.values, k.trees) {
		names = append(names, below(path))
	}
	return names
}

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
	called := func(name string) string { return c.prefix + variable(below(join(path, name))) }
	wrong := units(k, path, "", target.Type().Elem(), 0, called)
	if err := k.Unmarshal(path, v); err != nil {
		wrong = append(wrong, harmless(err, called)...)
	}
	if len(wrong) > 0 {
		return errors.New(strings.Join(wrong, "; "))
	}
	return nil
}

// units makes numbers of the texts in k for fields of sizes, in a value of type t that has the name
// below path. It returns what is no size, and what is no duration, which are left out.
func units(k *koanf.Koanf, path, name string, t reflect.Type, depth int, called func(name string) string) (wrong []string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if depth > deepest || t.Kind() != reflect.Struct || isText(t) {
		return nil
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, ok := place(name, f)
		if !ok {
			continue
		}
		at := join(path, name)
		text, single := k.Get(at).(string)
		var err error
		switch {
		case single && f.Tag.Get("unit") == "bytes":
			var size int
			if size, err = bytes(strings.TrimSpace(text)); err == nil {
				err = k.Set(at, size)
			}
		case areDurations(f.Type):
			err = durations(k.Get(at))
		default:
			wrong = append(wrong, units(k, path, name, f.Type, depth+1, called)...)
		}
		if err != nil {
			k.Delete(at)
			wrong = append(wrong, fmt.Sprintf("%s (%s) %v", name, called(name), err))
		}
	}
	return wrong
}

// areDurations says whether values of t are durations, or lists or maps of them.
func areDurations(t reflect.Type) bool {
	several := []reflect.Kind{reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map}
	for depth := 0; depth < deepest && slices.Contains(several, t.Kind()); depth++ {
		t = t.Elem()
	}
	return t == reflect.TypeFor[time.Duration]()
}

// durations says what is wrong with a value, or a list or map of values, for durations. A number
// is: the decoder would take it for nanoseconds, which nobody means. Of a text it wants a unit,
// which may be a day, unlike one of ours.
func durations(value any) error {
	of := reflect.ValueOf(value)
	switch {
	case value == nil:
		return nil
	case of.Kind() == reflect.Slice, of.Kind() == reflect.Map:
		for _, one := range of.Seq2() {
			if err := durations(one.Interface()); err != nil {
				return err
			}
		}
		return nil
	}
	var d time.Duration
	text, k := fmt.Sprint(value), koanf.New(".")
	if err := k.Set("d", text); err == nil && k.Unmarshal("d", &d) == nil {
		return nil
	}
	_, err := parse(d, "", text)
	return err
}

// deepest is how far types are looked into that contain themselves.
const deepest = 16

// overlay sets what the environment says about a value of type t at path.
func (c *Config) overlay(k *koanf.Koanf, path string, t reflect.Type, depth int) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	name := variable(below(path))
	switch {
	case depth > deepest:
		return nil
	case t.Kind() == reflect.Struct && !isText(t):
		for i := range t.NumField() {
			at, ok := place(path, t.Field(i))
			if !ok {
				continue
			}
			if err := c.overlay(k, at, t.Field(i).Type, depth+1); err != nil {
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
		list, err := texts(text, false)
		return errors.Join(err, k.Set(path, list))
	}
	return k.Set(path, text)
}

// place is the path of a field below that of its struct, under the name that koanf has for it;
// false: koanf leaves it alone.
func place(path string, f reflect.StructField) (string, bool) {
	tag, options, _ := strings.Cut(f.Tag.Get("koanf"), ",")
	switch {
	case !f.IsExported() && !f.Anonymous, tag == "-":
		return "", false
	case slices.Contains(strings.Split(options, ","), "squash"):
		return path, true
	case tag == "":
		tag = strings.ToLower(f.Name)
	}
	return join(path, tag), true
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

// harmless are the decoder's complaints without the values, with the variable of each beside its
// name.
func harmless(err error, called func(name string) string) []string {
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		several, ok := inner.(interface{ Unwrap() []error })
		if !ok {
			continue
		}
		var all []string
		for _, err := range several.Unwrap() {
			all = append(all, harmless(err, called)...)
		}
		return all
	}
	var decode *mapstructure.DecodeError
	var parse *mapstructure.ParseError
	var other *mapstructure.UnconvertibleTypeError
	name, says := "", "has a value that its type does not take"
	if errors.As(err, &decode) {
		if name = decode.Name(); name != "" {
			name += " (" + called(name) + ") "
		}
	}
	switch {
	case errors.As(err, &parse):
		says = "is no " + plain(parse.Expected.Type())
	case errors.As(err, &other):
		says = "is no " + plain(other.Expected.Type())
	}
	return []string{name + says}
}

// plain says what values of a type are, to people who write settings.
func plain(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "whole number"
	case reflect.Map, reflect.Struct:
		return "level with names below it"
	default:
		return t.String()
	}
}
