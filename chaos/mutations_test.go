//go:build mutations

package chaos

import (
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/internal/testbroker"
)

// Each patch of the folder mutations breaks a promise on purpose. Its text says in which scenario
// that shows, or in which test of which package, where that breaks the very step. A patch that no
// longer applies is a failure: whoever changes the code it breaks says anew how to break it.
func TestEveryMutationIsCaught(t *testing.T) {
	patches, err := filepath.Glob("mutations/*.patch")
	if err != nil || len(patches) == 0 {
		t.Fatalf("no mutations: %v", err)
	}
	kafka := testbroker.StartKafka(t, testbroker.KafkaOptions{})
	sites := map[string]*site{}
	for _, release := range []string{"oldest", "newest"} {
		sites[release] = &site{release: release, kafka: kafka, rabbit: testbroker.StartRabbitMQ(t, release, testbroker.RabbitOptions{})}
	}
	seed := seed(t)
	t.Logf("%s=%d", seedVariable, seed)
	for _, path := range patches {
		name := strings.TrimSuffix(filepath.Base(path), ".patch")
		if !matches(name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			s := sites[must(t, path, "RabbitMQ: ")]
			if test := field(t, path, "Test: "); test != "" {
				s.mustFailTest(t, path, test)
				return
			}
			c := named(t, must(t, path, "Scenario: "))
			if c.calls {
				mutant := buildMutant(t, path, "./cmd/retrier")
				s.retrier = func() (string, error) { return mutant, nil }
			} else {
				s.child = buildMutant(t, path, "./chaos/child")
			}
			s.mustFail(t, c, choices(seed, name))
		})
	}
}

// mustFail runs the scenario until the judge finds fault, a few times at most: not every kill comes
// at the right moment.
func (s *site) mustFail(t *testing.T, c scenario, random *rand.Rand) {
	const most = 4
	for n := range most {
		report := s.perform(t, c, random)
		if len(report.Lost) > 0 || len(report.Wrong) > 0 {
			t.Logf("caught in run %d: %d of %d records lost, wrong: %q", n+1, len(report.Lost), report.Records, report.Wrong[:min(len(report.Wrong), 2)])
			return
		}
	}
	t.Errorf("not caught in %d runs of %q", most, c.name)
}

// mustFailTest runs one test of one package, "./deadset TestX", in a tree to which the patch was
// applied. That it fails to compile, or does not run, is no catch.
func (s *site) mustFailTest(t *testing.T, patch, test string) {
	dir := mutated(t, patch)
	pkg, name, _ := strings.Cut(test, " ")
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-run", "^"+name+"$", pkg)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "STEPWELL_TEST_RABBITMQ="+s.rabbit.Version+"="+s.rabbit.URL, "STEPWELL_TEST_KAFKA="+s.kafka.Bootstrap)
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "--- FAIL: "+name) {
		t.Errorf("not caught by %s: %v\n%s", test, err, out)
		return
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "_test.go:") {
			t.Logf("caught: %s", strings.TrimSpace(line))
			return
		}
	}
}

func named(t *testing.T, name string) scenario {
	t.Helper()
	all := scenarios()
	i := slices.IndexFunc(all, func(c scenario) bool { return c.name == name })
	if i < 0 {
		t.Fatalf("no scenario is called %q", name)
	}
	return all[i]
}

// must is field, of a patch that has it.
func must(t *testing.T, path, label string) string {
	t.Helper()
	value := field(t, path, label)
	if value == "" {
		t.Fatalf("%s has no line that begins %q", path, label)
	}
	return value
}

// field reads what follows the label at the beginning of a line; empty: there is none.
func field(t *testing.T, path, label string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, label); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// buildMutant builds the program from a copy of the tree to which the patch was applied.
func buildMutant(t *testing.T, patch, program string) string {
	t.Helper()
	child := filepath.Join(t.TempDir(), "child")
	do(t, mutated(t, patch), "go", "build", "-tags", "failpoint", "-o", child, program)
	return child
}

// mutated is a copy of the tree to which the patch was applied.
func mutated(t *testing.T, patch string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	copyTree(t, "..", dir)
	patch, err := filepath.Abs(patch)
	if err != nil {
		t.Fatal(err)
	}
	do(t, dir, "git", "apply", patch)
	return dir
}

// do runs a command in a folder.
func do(t *testing.T, dir string, argv ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", strings.Join(argv, " "), err, out)
	}
}

// copyTree copies what is needed to build: Go files, and what they embed.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if d.Name() == ".git" {
				return filepath.SkipDir
			}
			return os.MkdirAll(filepath.Join(to, name), 0o750)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), data, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}
