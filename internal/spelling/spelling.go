// Package spelling finds what was probably meant by a name that nobody knows.
package spelling

import (
	"strings"
	"unicode"
)

// Meant is what a message about an unknown name ends with: the known one that was probably meant;
// empty where none is near.
func Meant(name string, known []string) string {
	if near := Nearest(name, known); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}

// Nearest returns the first of the known names that is the fewest slips away from name; "" where
// none is near. A slip is a letter too many, too few, another one, or two that changed places: one
// in three letters, two in seven, three in eleven and more. Capitals, blanks, dashes and
// underscores do not count.
func Nearest(name string, known []string) string {
	name = plain(name)
	best, most := "", min(3, (len(name)+1)/4)
	for _, k := range known {
		// Texts whose lengths differ by more than that cannot be near: most need no table.
		if p := plain(k); len(p)-len(name) <= most && len(name)-len(p) <= most {
			if n := slips(name, p); n <= most {
				best, most = k, n-1
			}
		}
	}
	return best
}

// plain leaves out what people write differently in variables, flags and files.
func plain(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r == ' ' {
			return -1
		}
		return unicode.ToLower(r)
	}, name)
}

// slips is the distance of Damerau and Levenshtein in bytes, where no two letters that changed
// places are changed again.
func slips(a, b string) int {
	// d[i][j] is the distance of the first i bytes of a and the first j of b.
	d := make([][]int, len(a)+1)
	for i := range d {
		d[i] = make([]int, len(b)+1)
		d[i][0] = i
	}
	for j := range d[0] {
		d[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			same := d[i-1][j-1]
			if a[i-1] != b[j-1] {
				same++
			}
			d[i][j] = min(same, d[i-1][j]+1, d[i][j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d[i][j] = min(d[i][j], d[i-2][j-2]+1)
			}
		}
	}
	return d[len(a)][len(b)]
}
