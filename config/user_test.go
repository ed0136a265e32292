package config_test

import (
	"log/slog"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
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
	for _, want := range []string{"settings below app.db: ", "pool_size is no int", "timeout ", "level "} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
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
