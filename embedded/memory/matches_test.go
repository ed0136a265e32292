package memory

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// may says the rule of matches in its own words, slowly.
func may(want, words []string) bool {
	switch {
	case len(want) == 0:
		return len(words) == 0
	case want[0] == "#":
		return may(want[1:], words) || len(words) > 0 && may(want, words[1:])
	default:
		return len(words) > 0 && (want[0] == "*" || want[0] == words[0]) && may(want[1:], words[1:])
	}
}

func TestABindingTakesTheKeysThatItsWordsTellOneByOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "", "*", "#"}), 1, 8).Draw(t, "binding")
		words := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", ""}), 2, 10).Draw(t, "key") // one empty word would be none
		if binding, key := strings.Join(want, "."), strings.Join(words, "."); binding != "" && matches(binding, key) != may(want, words) {
			t.Errorf("%q takes %q: %t", binding, key, !may(want, words))
		}
	})
}
