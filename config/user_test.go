package config_test

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell/config"
)

type database struct {
	URL      string        `koanf:"url"`
	PoolSize int           `koanf:"pool_size"`
	Timeout  time.Duration `koanf:"timeout"`
	Hosts    []string      `koanf:"hosts"`
	Level    slog.Level    `koanf:"level"`
	Inner    *database     `koanf:"inner"`
}

const userFile = "app:\n  name: shop\n  db:\n    pool_size: 4\n    hosts: [a]\n    timeout: 1s\n"

func TestTheUsersOwnVariablesHaveTheNamesOfTheirPaths(t *testing.T) {
	s := source("APP_DB_URL=postgres://db", "APP_DB_POOL_SIZE=5", "APP_DB_HOSTS=b, c", "APP_DB_LEVEL=warn", "APP_DB_INNER_TIMEOUT=3s", "APP_DB=x", "APP_DB_PORT=tcp://10.0.0.1:1")
	s.File = filepath.Join(t.TempDir(), "c.yaml")
	write(t, s.File, userFile)
	cfg := load(t, s)
	want := database{"postgres://db", 5, time.Second, []string{"b", "c"}, slog.LevelWarn, &database{Timeout: 3 * time.Second}}
	var db database
	if err := cfg.Unmarshal("db", &db); err != nil || !reflect.DeepEqual(db, want) {
		t.Errorf("below a path: %+v, %v", db, err)
	}
	var all struct {
		DB   database `koanf:"db"`
		Name string   `koanf:"name"`
	}
	if err := cfg.Unmarshal("", &all); err != nil || !reflect.DeepEqual(all.DB, want) || all.Name != "" {
		t.Errorf("all: %+v, %v", all, err)
	}
	var number int
	if err := cfg.Unmarshal("db.pool_size", &number); err != nil || number != 5 {
		t.Errorf("one value: %d, %v", number, err)
	}
}

func TestBelowAMapEachUnderscoreIsALevel(t *testing.T) {
	cfg := load(t, source("APP_LIMITS_EU=1", "APP_LIMITS_US_EAST=2", "APP_LIMITS_US=3", "APP_NAME_X=4", "APP_LIMITSX=5", "APP_LIMITS_PORT=tcp://10.0.0.1:1"))
	var limits map[string]any
	want := map[string]any{"eu": "1", "us": map[string]any{"east": "2"}}
	if err := cfg.Unmarshal("limits", &limits); err != nil || !reflect.DeepEqual(limits, want) {
		t.Errorf("below a path: %v, %v", limits, err)
	}
	var all any
	if err := cfg.Unmarshal("", &all); err != nil || !reflect.DeepEqual(all, map[string]any{"limits": want, "name": map[string]any{"x": "4"}, "limitsx": "5"}) {
		t.Errorf("all: %v, %v", all, err)
	}
	if cfg.App.Name != "shop" {
		t.Errorf("the app is called %q", cfg.App.Name)
	}
}

func TestAUsersValueOfAnotherTypeIsNamedButNotShown(t *testing.T) {
	var db database
	err := load(t, source("APP_DB_POOL_SIZE=hunter2", "APP_DB_TIMEOUT=hunter3", "APP_DB_LEVEL=hunter4")).Unmarshal("db", &db)
	if err == nil || strings.Contains(err.Error(), "hunter") {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{"settings below app.db: ", "pool_size (APP_DB_POOL_SIZE) is no whole number", "timeout (APP_DB_TIMEOUT) ", "level (APP_DB_LEVEL) "} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
}

func TestAUsersSizeMayHaveAUnitWhereItsFieldSaysSo(t *testing.T) {
	type part struct {
		Small int   `koanf:"small" unit:"bytes"`
		Large int64 `koanf:"large" unit:"bytes"`
		Plain int   `koanf:"plain" unit:"bytes"`
		Count int   `koanf:"count"`
		Left  int   `koanf:"left" unit:"bytes"`
	}
	type all struct {
		Files *part `koanf:"files"`
	}
	s := source("APP_FILES_LARGE=2MiB", "APP_FILES_COUNT=3")
	s.File = filepath.Join(t.TempDir(), "c.yaml")
	write(t, s.File, "app:\n  name: shop\n  files: {small: 64KiB, large: 1, plain: 7}\n")
	cfg, want := load(t, s), part{64 << 10, 2 << 20, 7, 3, 5}
	got, v := part{Left: 5}, all{Files: &part{Left: 5}}
	if err := errors.Join(cfg.Unmarshal("files", &got), cfg.UnmarshalStrict("", &v)); err != nil || got != want || *v.Files != want {
		t.Errorf("%+v, %+v, %v", got, *v.Files, err)
	}
	cfg = load(t, source("APP_FILES_SMALL=hunter2MB", "APP_FILES_LARGE=1KiB", "APP_FILES_COUNT=1KiB"))
	v = all{Files: &part{Small: 9}}
	says := fmt.Sprint(cfg.UnmarshalStrict("", &v))
	if says != "settings below app: files.small (APP_FILES_SMALL) is no size such as 65536, 64KiB or 16MiB; files.count (APP_FILES_COUNT) is no whole number" {
		t.Errorf("it says %s", says)
	}
	if v.Files.Small != 9 || v.Files.Large != 1024 {
		t.Errorf("%+v", *v.Files)
	}
}

// tree contains itself.
type tree map[string]tree

// The decoder takes a number for nanoseconds.
func TestAUsersDurationHasAUnit(t *testing.T) {
	type all struct {
		Timeout time.Duration            `koanf:"timeout"`
		Pause   *time.Duration           `koanf:"pause"`
		Waits   []time.Duration          `koanf:"waits"`
		Hosts   map[string]time.Duration `koanf:"hosts"`
		Pair    [2]time.Duration         `koanf:"pair"`
		Tree    tree                     `koanf:"tree"`
		None    time.Duration            `koanf:"none"`
	}
	of := func(yaml string, variables ...string) (v all, says string) {
		s := source(variables...)
		s.File = filepath.Join(t.TempDir(), "c.yaml")
		write(t, s.File, "app: "+yaml+"\n")
		return v, fmt.Sprint(load(t, s).UnmarshalStrict("", &v))
	}
	v, says := of("{name: shop, timeout: 1d12h, pause: 0, waits: [1s, 2m], hosts: {a: 3s}, pair: [1s, 2s], tree: {a: {b: {}}}, none: }")
	if says != "<nil>" || v.Timeout != 36*time.Hour || v.Pause == nil || len(v.Waits) != 2 || v.Hosts["a"] != 3*time.Second || v.Pair[1] != 2*time.Second {
		t.Errorf("%+v, %s", v, says)
	}
	for _, test := range [][]string{
		{"{name: shop, timeout: 3, pause: 1.5, waits: [1s, 2], hosts: {a: 3}, pair: [1s, 2]}"},
		{"{name: shop, pair: [1, 2s]}", "APP_TIMEOUT=3", "APP_PAUSE=hunter2", "APP_WAITS=1s,2", "APP_HOSTS_A=3"},
	} {
		v, says := of(test[0], test[1:]...)
		const no = "is no duration such as 500ms, 5s or 1h30m"
		if want := "settings below app: timeout (APP_TIMEOUT) " + no + "; pause (APP_PAUSE) " + no + "; waits (APP_WAITS) " + no + "; hosts (APP_HOSTS) " + no + "; pair (APP_PAIR) " + no; says != want || v.Timeout != 0 {
			t.Errorf("%s: %+v, it says %s", test, v, says)
		}
	}
}

func TestDecodingIntoWhatCannotTakeItIsAnError(t *testing.T) {
	cfg := load(t, source())
	for _, v := range []any{nil, database{}, (*database)(nil)} {
		if err := cfg.Unmarshal("", v); err == nil {
			t.Errorf("%T: no error", v)
		}
	}
}

// A mistyped name is told from one that is known in another way, also where a level hides it.
func TestWhatNobodyReadsIsAMistakeWhereThatIsAskedFor(t *testing.T) {
	file := filepath.Join(t.TempDir(), "app.yaml")
	if err := os.WriteFile(file, []byte("app:\n  name: shop\n  hots: [x]\n  host_limit: 3\n  waits: {any: 1s, other: {deep: 2s}}\n  tls: {ca: a, ca_file: b}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var v struct {
		Hosts     []string       `koanf:"hosts"`
		HostLimit int            `koanf:"host_limit"`
		Waits     map[string]any `koanf:"waits"`
		Squashed  struct {
			Deep time.Duration
		} `koanf:",squash"`
		TLS struct {
			CAFile string `koanf:"ca_file"`
		} `koanf:"tls"`
	}
	cfg, err := config.Load(config.Source{
		AppName: "shop", File: file, Embedded: true, EnvPrefix: "X_",
		Environ: []string{
			"X_APP_HOST=a", "X_APP_HOST_LIMIT=4", "X_APP_HOSTS=b,c", "X_APP_DEEP=3s", "X_APP_WAITS_MORE=5s", "X_APP_NAME=shop",
			"X_APP_TLS_CA_FILE=c", "X_APP_SERVICE_HOST=10.0.0.1", "X_APP_LIMIT=soon",
		},
		Streams: map[string]config.Stream{"a": {Topics: []string{"t"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	err = cfg.UnmarshalStrict("", &v)
	want := `X_APP_HOST is not known; did you mean X_APP_HOSTS?
X_APP_LIMIT is not known
app.hots is not known; did you mean app.hosts?
app.tls.ca is not known`
	if err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
	if fmt.Sprintln(v.Hosts, v.HostLimit, v.Squashed.Deep, v.TLS.CAFile, v.Waits) != "[b c] 4 3s c map[any:1s more:5s other:map[deep:2s]]\n" {
		t.Errorf("%+v", v)
	}
	var part struct {
		CAFile string `koanf:"ca_file"`
	}
	if err := cfg.UnmarshalStrict("tls", &part); err == nil || err.Error() != "app.tls.ca is not known" || part.CAFile != "c" {
		t.Errorf("a part: %v, %+v", err, part)
	}
	if err := cfg.UnmarshalStrict("", &map[string]any{}); err != nil {
		t.Errorf("a map takes all: %v", err)
	}
}

// The user's mistakes stand beside ours, a line each.
func TestTheUsersMistakesStandBesideOurs(t *testing.T) {
	_, err := config.Load(config.Source{
		AppName: "shop", Embedded: true, Environ: []string{"CONCURRENCY=many", "APP_LIMIT=7"},
		Streams: map[string]config.Stream{"a": {Topics: []string{"t"}}},
		Check: func(c *config.Config) error {
			if n := c.Stream("a").Concurrency; n != 16 {
				t.Errorf("what cannot be read is %d", n)
			}
			return errors.Join(errors.New("one"), errors.New("APP_LIMIT of 7 is too much"))
		},
	})
	want := "the configuration has mistakes:\n  APP_LIMIT of 7 is too much\n  CONCURRENCY: \"many\" is no whole number (from environment CONCURRENCY)\n  one"
	if err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
}
