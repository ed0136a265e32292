package operations

import (
	"slices"
	"testing"
	"time"
)

func TestASelectionSaysExactlyOneThing(t *testing.T) {
	for _, s := range []Selection{
		{}, {Group: "7f3a91c2b04d", All: true}, {IDs: []string{"a"}, Filter: map[string]string{"error": "x"}}, {Filter: map[string]string{}}, {Group: "x"},
		{Operation: "op_1", All: true}, {Operation: "op_1", Group: "7f3a91c2b04d"}, {Operation: "op_1", IDs: []string{"a"}, All: true},
		{Filter: map[string]string{"eror": "x"}}, {Filter: map[string]string{"error": ""}},
	} {
		if f, err := s.Compile(time.Now()); err == nil || !f.IsZero() {
			t.Errorf("%+v: %s, %v", s, f, err)
		}
	}
	for want, s := range map[string]Selection{
		"all": {All: true}, "1 ids": {IDs: []string{"a"}, Operation: "op_1"}, `group="7f3a91c2b04d"`: {Group: "7f3a91c2b04d"}, "2 ids": {IDs: []string{"a", "b"}}, `error="x"`: {Filter: map[string]string{"error": "x"}},
	} {
		if f, err := s.Compile(time.Now()); err != nil || f.String() != want {
			t.Errorf("%s: %s, %v", want, f, err)
		}
	}
}

func TestRatesAreReadAndMadeBatchesOfTwoSeconds(t *testing.T) {
	for text, want := range map[string]struct {
		most  int
		every time.Duration
	}{
		"200/s": {400, 2 * time.Second}, "1/s": {2, 2 * time.Second}, "10/m": {1, 6 * time.Second}, "1/m": {1, time.Minute}, "90/m": {3, 2 * time.Second}, Unlimited: {noLimit, 0},
	} {
		rate, err := ParseRate(text)
		most, every := rate.batch()
		if err != nil || rate.String() != text || most != want.most || every != want.every {
			t.Errorf("%s: %s, %d every %s, %v", text, rate, most, every, err)
		}
	}
	for _, text := range []string{"", "0/s", "1", "1/h", "-1/s", "1.5/s", "01/s", " 1/s", "12345678/s", "1/s\n"} {
		if rate, err := ParseRate(text); err == nil {
			t.Errorf("%q is %s", text, rate)
		}
	}
}

func FuzzARateIsReadAsItIsWritten(f *testing.F) {
	f.Add("200/s")
	f.Add("unlimited")
	f.Fuzz(func(t *testing.T, text string) {
		rate, err := ParseRate(text)
		if err == nil && rate.String() != text {
			t.Errorf("%q is %s", text, rate)
		}
	})
}

func TestIDsOfTheSameTimeDifferAndSortByTime(t *testing.T) {
	at := time.Now()
	a, b, later := NewID(at), NewID(at), NewID(at.Add(time.Millisecond))
	if a == b || !slices.IsSorted([]string{max(a, b), later}) || idOf("k") == idOf("l") {
		t.Errorf("%s %s %s", a, b, later)
	}
}
