package console

import "strings"

// Routes are all of the console, as "METHOD path".
func Routes() []string {
	var all []string
	for pattern := range new(Console).table() {
		all = append(all, strings.TrimSuffix(pattern, "{$}"))
	}
	return all
}
