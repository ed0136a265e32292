package chaos

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// growth is how much the median of the last third may be above that of the first: factor times, and
// so much more.
type growth struct{ factor, more float64 }

// looks are series of what was measured.
type looks struct{ all []*series }

type series struct {
	name   string
	may    growth
	values []float64
}

func (l *looks) add(name string, value float64, may growth) {
	i := slices.IndexFunc(l.all, func(s *series) bool { return s.name == name })
	if i < 0 {
		i = len(l.all)
		l.all = append(l.all, &series{name: name, may: may})
	}
	l.all[i].values = append(l.all[i].values, value)
}

// thirds are the medians of the first and the last third. A sixth is left out at the beginning, in
// which caches and pools fill.
func (s *series) thirds() (first, last float64) {
	warm := s.values[len(s.values)/6:]
	third := max(1, len(warm)/3)
	return median(warm[:third]), median(warm[len(warm)-third:])
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// growing says what grows.
func (l *looks) growing() []string {
	var said []string
	if len(l.all) == 0 {
		return []string{"nothing was measured"}
	}
	for _, s := range l.all {
		if first, last := s.thirds(); last > first*s.may.factor+s.may.more {
			said = append(said, fmt.Sprintf("%s: from %.0f in the first third to %.0f in the last", s.name, first, last))
		}
	}
	return said
}

func (l *looks) table(length time.Duration, rabbit string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| %s with RabbitMQ %s | first third, median | last third, median | least | most |\n|---|--:|--:|--:|--:|\n", length, rabbit)
	for _, s := range l.all {
		first, last := s.thirds()
		fmt.Fprintf(&b, "| %s | %.0f | %.0f | %.0f | %.0f |\n", s.name, first, last, slices.Min(s.values), slices.Max(s.values))
	}
	return b.String()
}

func TestWhatGrowsIsFoundAndWhatOnlyGoesUpAndDownIsNot(t *testing.T) {
	for _, c := range []struct {
		name  string
		at    func(i int) float64
		grows bool
	}{
		{"flat", func(int) float64 { return 100 }, false},
		{"up and down", func(i int) float64 { return 100 + float64(i%7)*30 }, false},
		{"filled in the beginning", func(i int) float64 { return min(100, float64(20*i)) }, false},
		{"always a little more", func(i int) float64 { return 100 + float64(i) }, true},
		{"one more each minute", func(i int) float64 { return 100 + float64(i/12*5) }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := &looks{}
			for i := range 100 {
				l.add("it", c.at(i), growth{1.1, 5})
			}
			if said := l.growing(); (len(said) > 0) != c.grows {
				t.Errorf("said: %q", said)
			}
		})
	}
}
