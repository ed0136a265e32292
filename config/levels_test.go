package config_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/config"
)

// A reader of the documentation finds the name in the file of each variable in its tables.
func TestTheDocumentationSaysWhatIsALevelOfTheFile(t *testing.T) {
	var page strings.Builder
	if err := config.Document(&page); err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(page.String(), "The levels of the file are ")
	sentence, _, _ := strings.Cut(after, ";")
	levels := regexp.MustCompile("`([a-z_.]+)`").FindAllStringSubmatch(sentence, -1)
	variables := regexp.MustCompile("(?m)^\\| `([A-Z_]+)` \\|").FindAllStringSubmatch(page.String(), -1)
	if len(levels) < 10 || len(variables) < 80 {
		t.Fatalf("%d levels and %d variables", len(levels), len(variables))
	}
	for _, v := range variables {
		of := ""
		for _, l := range levels {
			if prefix := strings.ToUpper(strings.ReplaceAll(l[1], ".", "_")) + "_"; strings.HasPrefix(v[1], prefix) && len(l[1]) > len(of) {
				of = l[1]
			}
		}
		path := strings.ToLower(v[1])
		if of != "" {
			path = of + "." + path[len(of)+1:]
		}
		s := source()
		s.File = filepath.Join(t.TempDir(), "settings.yaml")
		if err := os.WriteFile(s.File, []byte(nested(path)), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := config.Load(s); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// nested is a file with this setting, and no value.
func nested(path string) string {
	var file strings.Builder
	for depth, key := range strings.Split(path, ".") {
		file.WriteString(strings.Repeat("  ", depth) + key + ":\n")
	}
	return file.String()
}

func TestASettingAtAnotherDepthOfTheFileIsTakenForTheOneOfItsVariable(t *testing.T) {
	for file, want := range map[string]string{
		"window:\n  bytes: 1MiB\n":                                      "window in %s is no setting; did you mean window_bytes?",
		"kafka:\n  session:\n    timeout: 10s\n":                        "kafka.session in %s is no setting; did you mean kafka.session_timeout?",
		"dead:\n  set:\n    trash: 1h\n":                                "dead in %s is no setting; did you mean dead_set.trash?",
		"streams:\n  orders:\n    handler:\n      timeout: 1m\n":        "streams.orders.handler in %s is no setting; did you mean streams.orders.handler_timeout?",
		"retri:\n  count: 5\n":                                          "retri in %s is no setting; did you mean retry?",
		"window:\n  hunter2: 1MiB\n  another: {secret: [hunter2, 1]}\n": "window in %s is no setting\n",
	} {
		s := source()
		s.File = filepath.Join(t.TempDir(), "settings.yaml")
		if err := os.WriteFile(s.File, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := config.Load(s)
		if want := strings.ReplaceAll(want, "%s", s.File); err == nil || !strings.Contains(err.Error()+"\n", want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v, want %s", file, err, want)
		}
	}
}
