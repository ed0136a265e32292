// Package reserved finds options of a Kafka client that who promises something must not leave to
// others.
package reserved

import (
	"context"
	"fmt"
	"reflect"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Option is an option of clients that must be left alone.
type Option struct {
	// Name is that of its function in kgo.
	Name string
	// Option is that function, by which a client is asked for its value.
	Option any
	// Why says what it would break, or what is to be set in its place.
	Why string
}

// Find returns an error for each of all that opts set to something else than base alone. What an
// option sets shows only in a client, so two are made, which connect nowhere, and closed. err is
// the client's own: it cannot be made with base and opts. Or one of these is nil.
func Find(all []Option, base, opts []kgo.Opt) (found []error, err error) {
	for i, o := range opts {
		if o == nil {
			return nil, fmt.Errorf("option %d of %d is nil", i+1, len(opts))
		}
	}
	never, cancel := context.WithCancel(context.Background())
	cancel()
	clientWith := func(opts []kgo.Opt) (*kgo.Client, error) {
		all := append([]kgo.Opt{}, base...)
		return kgo.NewClient(append(append(all, opts...), kgo.WithContext(never))...)
	}
	plain, err := clientWith(nil)
	if err != nil {
		return nil, err
	}
	defer plain.Close()
	theirs, err := clientWith(opts)
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	for _, o := range all {
		if !same(plain.OptValues(o.Option), theirs.OptValues(o.Option)) {
			found = append(found, fmt.Errorf("kgo.%s is not to be set: %s", o.Name, o.Why))
		}
	}
	return found, nil
}

// same compares what options were given; two functions are the same if both are nil.
func same(a, b []any) bool {
	for i := range a {
		x, y := reflect.ValueOf(a[i]), reflect.ValueOf(b[i])
		if x.IsValid() && y.IsValid() && x.Kind() == reflect.Func && y.Kind() == reflect.Func {
			if x.Pointer() != y.Pointer() {
				return false
			}
			continue
		}
		if !reflect.DeepEqual(a[i], b[i]) {
			return false
		}
	}
	return len(a) == len(b)
}
