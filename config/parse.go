package config

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// assign parses raw, a text or what YAML made of it, into the setting.
func assign(f field, raw any) error {
	target := f.value
	// A pointer tells a value that was set from none. It is replaced only when the text was
	// understood.
	if target.Kind() == reflect.Pointer {
		fresh := reflect.New(target.Type().Elem())
		if err := assign(field{f.path, fresh.Elem(), f.tag}, raw); err != nil {
			return err
		}
		target.Set(fresh)
		return nil
	}
	if v := reflect.ValueOf(raw); v.IsValid() && v.Type() == target.Type() {
		target.Set(v)
		return nil
	}
	if target.Kind() == reflect.Slice {
		values := target.Type().Elem() != reflect.TypeFor[string]()
		list, err := texts(raw, values)
		switch {
		case err != nil:
			return err
		case values:
			return assignEach(f, list)
		}
		target.Set(reflect.ValueOf(list))
		return nil
	}
	text, err := text(raw)
	if err != nil {
		return err
	}
	v, err := parse(target.Interface(), f.tag.Get("unit"), text)
	if err != nil {
		return err
	}
	target.Set(reflect.ValueOf(v))
	return nil
}

// assignEach parses a list into a setting that is no list of texts.
func assignEach(f field, list []string) error {
	all := reflect.MakeSlice(f.value.Type(), len(list), len(list))
	var wrong []string
	for i, text := range list {
		if err := assign(field{f.path, all.Index(i), f.tag}, text); err != nil {
			wrong = append(wrong, fmt.Sprintf("item %d %v", i+1, err))
		}
	}
	if wrong != nil {
		return errors.New(strings.Join(wrong, "; "))
	}
	f.value.Set(all)
	return nil
}

// parse makes a value of the type of like.
func parse(like any, unit, text string) (any, error) {
	switch like.(type) {
	case string:
		return text, nil
	case bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return nil, errors.New("is no true or false")
		}
		return b, nil
	case time.Duration:
		d, err := time.ParseDuration(text)
		if err != nil {
			return nil, errors.New("is no duration such as 500ms, 5s or 1h30m")
		}
		return d, nil
	case float64:
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
			return nil, errors.New("is no number such as 2 or 0.3")
		}
		return n, nil
	case int:
		if unit == "bytes" {
			return bytes(text)
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, errors.New("is no whole number")
		}
		return n, nil
	}
	return nil, fmt.Errorf("has the type %T, which nobody taught this package", like)
}

// bytes reads a size. The units are powers of two; without one it is bytes.
func bytes(text string) (int, error) {
	units := []struct {
		name string
		size int
	}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"B", 1}, {"", 1}}
	for _, u := range units {
		number, found := strings.CutSuffix(text, u.name)
		if !found {
			continue
		}
		n, err := strconv.Atoi(strings.TrimSpace(number))
		if err != nil || n > math.MaxInt/u.size || n < 0 {
			break
		}
		return n * u.size, nil
	}
	return 0, errors.New("is no size such as 65536, 64KiB or 16MiB")
}

// text is a scalar as a person wrote it.
func text(raw any) (string, error) {
	switch raw := raw.(type) {
	case string:
		return strings.TrimSpace(raw), nil
	case int, int64, uint64, float64, bool:
		return fmt.Sprint(raw), nil
	case time.Time:
		return raw.Format(time.RFC3339), nil
	}
	return "", errors.New("must be a single value")
}

// texts is a list, in YAML, or with commas or a line each, as a file of secrets has them. With
// gaps, an item is empty where there is nothing between two commas: a schedule would else lose a
// wait.
func texts(raw any, gaps bool) ([]string, error) {
	var list []string
	switch raw := raw.(type) {
	case []any:
		for _, r := range raw {
			s, err := text(r)
			if err != nil {
				return nil, errors.New("must be a list of single values")
			}
			list = append(list, s)
		}
	case []string:
		list = raw
	default:
		s, err := text(raw)
		if err != nil {
			return nil, errors.New("must be a list")
		}
		for line := range strings.Lines(s) {
			parts := strings.Split(strings.TrimSpace(line), ",")
			for i, part := range parts {
				part = strings.TrimSpace(part)
				if between := i > 0 && i < len(parts)-1; part != "" || gaps && between {
					list = append(list, part)
				}
			}
		}
	}
	return list, nil
}
