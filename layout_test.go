package stepwell_test

import (
	"errors"
	"go/build"
	"io/fs"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/stepwell/stepwell"

// mayImport is who imports whom within the module: each package has a row, with
// the packages that its code imports and no others. Tests may also import what
// is for tests. A new arrow is a decision: the row is where a review sees it.
var mayImport = map[string][]string{
	"/":               {},
	"codec/protobuf":  {"/"},
	"config":          {"internal/backoff", "internal/spelling"},
	"streams":         {"/", "internal/crew", "internal/envelope", "internal/failpoint", "internal/ledger", "internal/reserved", "internal/solo", "internal/task"},
	"retry":           {"/", "internal/backoff", "internal/envelope", "internal/errtext", "internal/failpoint", "internal/inbox", "internal/outcomes", "internal/queue", "internal/task"},
	"deadset":         {"/", "internal/cause", "internal/envelope", "internal/failpoint", "internal/filter", "internal/queue"},
	"server":          {"/", "internal/filter", "internal/operations", "internal/spelling", "server/console"},
	"server/console":  {},
	"server/contract": {},
	"actor": {
		"/", "config", "deadset", "internal/call", "internal/crew", "internal/envelope", "internal/failpoint", "internal/filter", "internal/inbox", "internal/login", "internal/operations", "internal/outcomes",
		"internal/queue", "internal/rabbit", "internal/records", "internal/reserved", "internal/seats", "internal/solo", "internal/spelling", "internal/task", "internal/telemetry",
		"retry", "server", "streams",
	},
	"embedded":                  {"/", "embedded/memory", "internal/queue"},
	"embedded/memory":           {"internal/queue"},
	"actortest":                 {"actor", "server"},
	"otlp":                      {},
	"internal/backoff":          {},
	"webhook":                   {"/"},
	"webhook/contract":          {},
	"internal/call":             {"/", "internal/errtext", "internal/task", "internal/telemetry"},
	"internal/cause":            {},
	"internal/crew":             {"/", "internal/task"},
	"internal/envelope":         {"/", "internal/queue"},
	"internal/errtext":          {},
	"internal/failpoint":        {},
	"internal/filter":           {"/"},
	"internal/inbox":            {"/", "internal/envelope", "internal/failpoint", "internal/queue", "internal/solo", "internal/task"},
	"internal/ledger":           {},
	"internal/login":            {},
	"internal/measure":          {},
	"internal/mistakes":         {},
	"internal/mutate":           {},
	"internal/operations":       {"internal/failpoint", "internal/filter", "internal/outcomes", "internal/queue", "internal/records"},
	"internal/outcomes":         {"internal/failpoint", "internal/records"},
	"internal/queue":            {},
	"internal/queue/queuetest":  {"internal/queue"},
	"internal/rabbit":           {"internal/failpoint", "internal/queue"},
	"internal/records":          {"internal/failpoint", "internal/queue"},
	"internal/reserved":         {},
	"internal/seats":            {},
	"internal/solo":             {},
	"internal/spelling":         {},
	"internal/task":             {"/"},
	"internal/telemetry":        {"/"},
	"internal/testbroker":       {"internal/testbroker/local"},
	"internal/testbroker/local": {},
	"internal/testbroker/run":   {"internal/testbroker", "internal/testbroker/local"},
	"chaos":                     {},
	"chaos/child":               {"/", "actor", "chaos/ledger", "config", "internal/queue", "internal/rabbit"},
	"chaos/ledger":              {"/"},
	"chaos/proof":               {"chaos/ledger"},
	"chaos/proxy":               {},
	"cmd/retrier":               {"/", "actor", "config", "embedded", "webhook"},
	"cmd/stepwell":              {},
	"examples/jobs":             {"/", "actor"},
	"examples/queue":            {"/", "actor", "config"},
	"examples/moving":           {"/", "actor", "config"},
	"examples/orders":           {"/", "actor", "config", "embedded"},
	"examples/rescue":           {},
	"examples/service":          {"/", "actor"},
	"examples/shipping":         {"/", "actor"},
	"examples/triage":           {"/", "actor"},
	"examples/webhooks":         {"/", "actor", "config", "embedded", "webhook"},
	"examples/ziggurat":         {"/", "actor"},
	"examples/zigguratgo":       {"/", "actor"},
}

// onlyIn is who imports the modules that a room exists to hide, or to do
// without.
var onlyIn = map[string][]string{
	"github.com/knadh/koanf":         {"config"},
	"github.com/labstack/echo/v4":    {"server"},
	"github.com/rabbitmq/amqp091-go": {"chaos/child", "examples/rescue", "internal/rabbit", "internal/testbroker/run"},
	"github.com/twmb/franz-go": {
		"actor", "chaos/child", "embedded", "examples/moving", "examples/orders", "examples/rescue", "examples/webhooks", "internal/login",
		"internal/reserved", "internal/testbroker", "internal/testbroker/run", "streams",
	},
	"go.opentelemetry.io": {"actor", "internal/telemetry", "otlp"},
}

// onlyInTests are packages that a program never links.
var onlyInTests = []string{"internal/testbroker", "internal/testbroker/*", "internal/queue/queuetest", "internal/mistakes", "chaos", "chaos/*"}

// apart are packages that stay strangers to one another, in tests too. No
// change of the table makes them neighbours.
var apart = []string{"streams", "retry", "deadset", "server"}

func TestPackagesImportExactlyWhatTheTableSays(t *testing.T) {
	there := map[string]bool{}
	for _, p := range packages(t) {
		there[p.name] = true
		if allowed, ok := mayImport[p.name]; !ok || !slices.Equal(allowed, p.imports) {
			t.Errorf("mayImport of layout_test.go is not what %s imports; if it should, its row is\n\t%s", p.name, row(p.name, p.imports))
		}
	}
	for name := range mayImport {
		if !there[name] {
			t.Errorf("mayImport of layout_test.go has a row for %s, which is no package", name)
		}
	}
}

func TestModulesThatARoomHidesAreImportedOnlyThere(t *testing.T) {
	importers := map[string][]string{}
	for _, p := range packages(t) {
		for hidden := range onlyIn {
			if slices.ContainsFunc(p.foreign, func(i string) bool { return i == hidden || strings.HasPrefix(i, hidden+"/") }) {
				importers[hidden] = append(importers[hidden], p.name)
			}
		}
	}
	for hidden, allowed := range onlyIn {
		if slices.Sort(importers[hidden]); !slices.Equal(allowed, importers[hidden]) {
			t.Errorf("onlyIn of layout_test.go is not who imports %s; if it should, its row is\n\t%s", hidden, row(hidden, importers[hidden]))
		}
	}
}

func TestNothingThatIsForTestsIsLinked(t *testing.T) {
	for _, p := range packages(t) {
		for _, imported := range p.imports {
			if matchesAny(onlyInTests, imported) && !matchesAny(onlyInTests, p.name) {
				t.Errorf("%s imports %s, which is for tests", p.name, imported)
			}
		}
	}
}

func TestRoomsThatStayApartImportOneAnotherNotEvenInTests(t *testing.T) {
	for _, p := range packages(t) {
		for _, imported := range slices.Concat(p.imports, p.testImports) {
			if p.name != imported && slices.Contains(apart, p.name) && slices.Contains(apart, imported) {
				t.Errorf("%s or a test of it imports %s", p.name, imported)
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
			for _, unwanted := range []string{module + "/embedded", module + "/actortest", module + "/codec", "/kfake", "/exporters/otlp"} {
				if strings.Contains(dep, unwanted) {
					t.Errorf("%s links %s", p.name, dep)
				}
			}
			if dep == module+"/webhook" && !slices.Contains(p.imports, "webhook") {
				t.Errorf("%s links %s, which it does not import", p.name, dep)
			}
		}
	}
}

// local is one package of the module; "/" is the root.
type local struct {
	name                 string
	imports, testImports []string // of this module, without its name
	foreign              []string // all that its code imports
}

func packages(t *testing.T) []local {
	t.Helper()
	var all []local
	err := filepath.WalkDir(".", func(dir string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if skipped := strings.HasPrefix(d.Name(), ".") && dir != "." || d.Name() == "testdata" || dir == "bench" || dir == "browser" || dir == "tools" || dir == filepath.Join("examples", "bulk"); skipped {
			return filepath.SkipDir
		}
		p, err := build.ImportDir(dir, 0)
		if none := (*build.NoGoError)(nil); errors.As(err, &none) {
			return nil
		}
		if err != nil {
			return err
		}
		all = append(all, local{path.Clean("/" + filepath.ToSlash(dir))[1:], ours(p.Imports), ours(append(p.TestImports, p.XTestImports...)), p.Imports})
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
	slices.Sort(names)
	return names
}

// row is a line of a table as it stands in this file.
func row(name string, imports []string) string {
	quoted := make([]string, len(imports))
	for i, s := range imports {
		quoted[i] = strconv.Quote(s)
	}
	return strconv.Quote(name) + ": {" + strings.Join(quoted, ", ") + "},"
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
