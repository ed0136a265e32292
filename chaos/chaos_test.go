package chaos

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stepwell/stepwell/internal/testbroker"
)

// The variables of `make chaos`. Without CHAOS_TIME the tests run a short selection.
const (
	seedVariable    = "CHAOS_SEED"    // makes the same choices again; default: a new one, which is printed
	timeVariable    = "CHAOS_TIME"    // run every scenario once, and then, until so long is over, several faults at random and three hundred kills in turn
	onlyVariable    = "CHAOS_ONLY"    // only scenarios whose name contains one of these, separated by commas
	releaseVariable = "CHAOS_RELEASE" // only on the oldest or the newest RabbitMQ
	childVariable   = "CHAOS_CHILD"   // an actor to test that was built before
	besideVariable  = "CHAOS_BESIDE"  // another one, of an earlier release, which every second process is
	actorsVariable  = "CHAOS_ACTORS"  // how many actors live at first, beside those that a scenario starts to die; default: 2
	resultsVariable = "CHAOS_RESULTS" // a file that a line of JSON is appended to for each run
)

func TestNothingIsLost(t *testing.T) {
	if testing.Short() {
		t.Skip(testbroker.NotRun + "actors are not killed with -short")
	}
	seed := seed(t)
	t.Logf("%s=%d", seedVariable, seed)
	length, err := time.ParseDuration(cmp.Or(os.Getenv(timeVariable), "0"))
	if err != nil {
		t.Fatalf("%s: %v", timeVariable, err)
	}
	actors, err := strconv.Atoi(cmp.Or(os.Getenv(actorsVariable), "2"))
	if err != nil || actors < 1 {
		t.Fatalf("%s: want a number of actors, 1 or more", actorsVariable)
	}
	child, jumper, retrier := buildChild(t), jumper(t), buildRetrier(t)
	for _, release := range releases() {
		t.Run(release, func(t *testing.T) {
			t.Parallel()
			s := &site{
				release: release, child: child, beside: os.Getenv(besideVariable), actors: actors, jumper: jumper, retrier: retrier,
				rabbit: testbroker.StartRabbitMQ(t, release, testbroker.RabbitOptions{}),
				kafka:  testbroker.StartKafka(t, testbroker.KafkaOptions{}),
			}
			end := time.Now().Add(length)
			// What is chosen by hand, or for hours, has scenarios that end the brokers, and
			// PROOF.md says how long each takes alone. Those of the short selection leave the
			// brokers alone, and wait most of the time.
			run, beside := chosen(scenarios(), length > 0), 1
			if length == 0 && os.Getenv(onlyVariable) == "" {
				beside = sideBySide
				if len(releases()) > 1 {
					run = everySecond(run, release)
				}
			}
			var all errgroup.Group
			all.SetLimit(beside)
			for _, c := range run {
				all.Go(func() error {
					t.Run(c.name, func(t *testing.T) { s.test(t, c, choices(seed, release+c.name)) })
					return nil
				})
			}
			_ = all.Wait() // each failed by itself
			s.atRandom(t, end, seed)
		})
	}
}

// everySecond are those scenarios of the short selection that the release has: the other one has
// the others. `make chaos` runs each on both.
func everySecond(from []scenario, release string) (run []scenario) {
	for i, c := range from {
		if (i%2 == 0) == (release == "oldest") {
			run = append(run, c)
		}
	}
	return run
}

// sideBySide is how many scenarios of the short selection a release has at once: with more the
// machine is short of time, and the load that goes on meanwhile makes the work more.
const sideBySide = 2

// mostAtRandom bounds the rounds of several faults, and of many kills, that follow each other: more
// than a week has time for. Where the name of none is chosen, it is soon reached.
const mostAtRandom = 20_000

// atRandom goes on until the end, also after a round that failed: the next one has actors and
// queues of its own.
func (s *site) atRandom(t *testing.T, end time.Time, seed uint64) {
	for n := 1; n <= mostAtRandom && time.Now().Before(end); n++ {
		c := several()
		if n%2 == 0 {
			c = killing()
		}
		name := fmt.Sprintf("%s %d", c.name, n)
		if matches(name) {
			t.Run(name, func(t *testing.T) { s.test(t, c, choices(seed, s.release+name)) })
		}
	}
}

func TestRoundsAtRandomEndAtOnceWhereNoneIsChosen(t *testing.T) {
	t.Setenv(onlyVariable, "a name that no scenario has")
	began := time.Now()
	new(site).atRandom(t, began.Add(time.Minute), 0)
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("nothing to do took %s", took)
	}
}

func releases() []string {
	if only := os.Getenv(releaseVariable); only != "" {
		return []string{only}
	}
	return []string{"oldest", "newest"}
}

// chosen are the scenarios to run once.
func chosen(from []scenario, all bool) []scenario {
	return slices.DeleteFunc(from, func(c scenario) bool {
		return !all && !c.short && os.Getenv(onlyVariable) == "" || !matches(c.name)
	})
}

func matches(name string) bool {
	only := os.Getenv(onlyVariable)
	return only == "" || slices.ContainsFunc(strings.Split(only, ","), func(part string) bool { return strings.Contains(name, part) })
}

func seed(t *testing.T) uint64 {
	text := os.Getenv(seedVariable)
	if text == "" {
		return rand.Uint64()
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", seedVariable, err)
	}
	return n
}

// choices are a scenario's own: they do not depend on what ran before it.
func choices(seed uint64, name string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// buildChild makes the actor, with marks at which it can be made to die.
func buildChild(t *testing.T) string {
	if built := os.Getenv(childVariable); built != "" {
		return built
	}
	path := filepath.Join(t.TempDir(), "child")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-tags", "failpoint", "-o", path, "./child").CombinedOutput()
	if err != nil {
		t.Fatalf("build the actor: %v: %s", err, out)
	}
	return path
}
