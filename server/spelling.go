package server

import (
	"maps"
	"slices"
	"strings"
)

// nearest returns the parameter that name is probably meant to be, or "".
func nearest(name string) string {
	const longest = 24
	if len(name) > longest {
		return ""
	}
	plain := plainName(name)
	for _, known := range slices.Sorted(maps.Keys(aliases)) {
		if distance(plain, plainName(known)) <= len(known)/3 {
			return known
		}
	}
	return ""
}

// plainName is a name without what people spell differently.
func plainName(name string) string {
	return strings.NewReplacer("-", "", "_", "", " ", "").Replace(strings.ToLower(name))
}

// distance counts the letters to insert, remove or change to make a of b (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
