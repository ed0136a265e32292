package stepwell_test

import (
	"errors"
	"go/build"
	"io/fs"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/stepwell/stepwell"

// mayImport is who may import whom within the module: a package of the left
// side only those of the right, and "…/*" stands for all below. The longest
// name that fits counts. Tests may also import what is for tests.
var mayImport = map[string][]string{
	"/":                   {},
	"config":              {"internal/spelling"},
	"streams":             {"/", "config", "internal/*"},
	"retry":               {"/", "config", "internal/*"},
	"deadset":             {"/", "config", "internal/*"},
	"server":              {"/", "config", "internal/*"},
	"server/contract":     {}, // tests alone
	"actor":               {"/", "config", "streams", "retry", "deadset", "server", "internal/*"},
	"embedded":            {"/", "config", "actor", "embedded/*", "internal/queue"},
	"embedded/*":          {"embedded/*", "internal/queue"},
	"internal/queue":      {},
	"internal/queue/*":    {"internal/queue"},
	"internal/envelope":   {"/", "internal/queue"},
	"internal/rabbit":     {"config", "internal/failpoint", "internal/queue"},
	"internal/telemetry":  {"/"},
	"internal/testbroker": {"internal/testbroker/*"},
	"internal/testbroker/*": {
		"internal/testbroker", "internal/testbroker/*",
	},
	"internal/failpoint": {},
	"internal/login":     {},
	"internal/mutate":    {},
	"internal/seats":     {},
	"internal/solo":      {},
	"internal/spelling":  {},
	"chaos":              {"chaos/*", "internal/failpoint", "internal/testbroker"}, // tests alone
	"chaos/*":            {"/", "actor", "chaos/*", "internal/queue", "internal/rabbit"},
	"otlp":               {},
	"cmd/*":              {"config"},
	"examples/*":         {"/", "actor", "config", "embedded"},
}

// onlyInTests are packages that a program never links.
var onlyInTests = []string{"internal/testbroker", "internal/testbroker/*", "internal/queue/queuetest", "chaos", "chaos/*"}

// apart are packages that stay strangers to one another, in tests too.
var apart = []string{"streams", "retry", "deadset", "server"}

func TestPackagesImportOnlyWhatTheTableAllows(t *testing.T) {
	for _, p := range packages(t) {
		allowed, ok := allowedFor(p.name)
		if !ok {
			t.Errorf("package %s is not in the table: say there what it may import", p.name)
		}
		for _, imported := range p.imports {
			if !slices.ContainsFunc(allowed, func(pattern string) bool { return fits(pattern, imported) }) {
				t.Errorf("%s imports %s", p.name, imported)
			}
			if matchesAny(onlyInTests, imported) && !matchesAny(onlyInTests, p.name) {
				t.Errorf("%s imports %s, which is for tests", p.name, imported)
			}
		}
		for _, imported := range p.testImports {
			if p.name != imported && slices.Contains(apart, p.name) && slices.Contains(apart, imported) {
				t.Errorf("a test of %s imports %s", p.name, imported)
			}
		}
	}
}

func TestTheRootPackageNeedsOnlyTheStandardLibrary(t *testing.T) {
	for _, dep := range dependencies(t, ".") {
		if first, _, _ := strings.Cut(dep, "/"); strings.Contains(first, ".") && dep != module {
			t.Errorf("the root package depends on %s", dep)
		}
	}
}

func TestAProgramThatDoesNotAskForEmbeddedBrokersLinksNone(t *testing.T) {
	for _, p := range packages(t) {
		if p.name != "actor" && !fits("examples/*", p.name) || slices.Contains(p.imports, "embedded") {
			continue
		}
		for _, dep := range dependencies(t, "./"+p.name) {
			for _, unwanted := range []string{module + "/embedded", "/kfake", "/exporters/otlp"} {
				if strings.Contains(dep, unwanted) {
					t.Errorf("%s links %s", p.name, dep)
				}
			}
		}
	}
}

// local is one package of the module; "/" is the root. Imports of other
// modules are left out.
type local struct {
	name                 string
	imports, testImports []string
}

func packages(t *testing.T) []local {
	t.Helper()
	var all []local
	err := filepath.WalkDir(".", func(dir string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if skipped := strings.HasPrefix(d.Name(), ".") && dir != "." || d.Name() == "testdata" || dir == "bench" || dir == "tools"; skipped {
			return filepath.SkipDir
		}
		p, err := build.ImportDir(dir, 0)
		if none := (*build.NoGoError)(nil); errors.As(err, &none) {
			return nil
		}
		if err != nil {
			return err
		}
		all = append(all, local{path.Clean("/" + filepath.ToSlash(dir))[1:], ours(p.Imports), ours(append(p.TestImports, p.XTestImports...))})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		if all[i].name == "" {
			all[i].name = "/"
		}
	}
	return all
}

// ours are the imports of this module, without its name.
func ours(imports []string) []string {
	var names []string
	for _, i := range imports {
		if i == module {
			names = append(names, "/")
		} else if name, ok := strings.CutPrefix(i, module+"/"); ok {
			names = append(names, name)
		}
	}
	return names
}

func allowedFor(name string) (allowed []string, ok bool) {
	best := ""
	for pattern := range mayImport {
		if fits(pattern, name) && len(pattern) > len(best) {
			best = pattern
		}
	}
	allowed, ok = mayImport[best]
	return allowed, ok
}

func fits(pattern, name string) bool {
	if below, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(name, below)
	}
	return pattern == name
}

func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return fits(p, name) })
}

func dependencies(t *testing.T, pkg string) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", pkg).Output()
	if err != nil {
		t.Fatalf("go list -deps %s: %v", pkg, err)
	}
	return strings.Fields(string(out))
}
