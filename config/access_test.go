package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/config"
)

// drawn are tokens as somebody draws them.
const (
	drawn   = "f4a1c09be27d5386f4a1c09b"
	drawnB  = "0d93ab77e1c2450d93ab77e1"
	alone   = "7c40e6d19b258a0f7c40e6d1"
	guessed = "swordfish-" + secret // too short
)

func TestTokensOfPeopleComeFromAVariableAFileOrAListEachWithItsNameAndRole(t *testing.T) {
	want := []config.Token{
		{Name: "token", Role: config.Operator, Secret: alone},
		{Name: "alice", Role: config.Operator, Secret: drawn}, {Name: "bob@example.org", Role: config.Viewer, Secret: drawnB + "=="},
	}
	first, second := "alice:operator:"+drawn, "bob@example.org:viewer:"+drawnB+"=="
	dir := t.TempDir()
	lines := filepath.Join(dir, "tokens")
	write(t, lines, first+"\r\n\n  "+second+"\n\n")
	list := source("SERVER_TOKEN=" + alone)
	list.File = filepath.Join(dir, "c.yaml")
	write(t, list.File, "server:\n  tokens:\n  - "+first+"\n  - "+second+"\n")
	for name, s := range map[string]config.Source{
		"a variable": source("SERVER_TOKEN="+alone, "SERVER_TOKENS="+first+", "+second),
		"a file":     source("SERVER_TOKEN="+alone, "SERVER_TOKENS_FILE="+lines),
		"a list":     list,
	} {
		cfg, err := config.Load(s)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if got := cfg.Server.Access(); !slices.Equal(got, want) {
			t.Errorf("%s: %v", name, got)
		}
	}
	if cfg, err := config.Load(source()); err != nil || cfg.Server.Access() != nil {
		t.Errorf("without any: %v", err)
	}
}

// Whoever starts an actor sees all that is wrong at once, and may show it to others.
func TestEachMistakeInTokensIsToldWithItsEntryAndWithoutASecret(t *testing.T) {
	entries := []string{
		"alice:operator:" + drawn + secret,
		"",                           // no entry, and not counted
		"no colon in " + secret,      // 2
		secret + drawn + ":operator", // 3
		"b" + secret + "!:operator:" + drawn + "3",    // 4
		"carol:root" + secret + ":" + drawn + "4",     // 5
		"dave:viewer:" + guessed,                      // 6
		"erin:viewer:" + drawn + " " + secret + drawn, // 7
		"ALICE:viewer:" + drawn + "8",                 // 8
		"frank:viewer:" + drawn + secret,              // 9
		"Token:viewer:" + drawn + "10",                // 10
		"grace:viewer:",                               // 11
	}
	got := said(source("SERVER_TOKENS="+strings.Join(entries, ","), "SERVER_TOKEN="+alone+secret))
	for _, want := range []string{
		"entry 2 is not name:role:token", "entry 3 is not name:role:token", "entry 4: its name must be of letters", "entry 5: its role must be viewer or operator",
		"entry 6: its token must have 20 to 1000 characters", "entry 7: its token must be of letters", "entry 8 has the name of entry 1", "entry 9 has the secret of entry 1",
		"entry 10: its name must be none of token", "entry 11: its token must have",
	} {
		if !strings.Contains(got, "SERVER_TOKENS: "+want) {
			t.Errorf("nothing says %q", want)
		}
	}
	if strings.Contains(got, secret) || strings.Contains(got, drawn) || strings.Contains(got, "entry 1:") || strings.Contains(got, "entry 12") {
		t.Errorf("said:\n%s", got)
	}
	if good := said(source("SERVER_TOKENS=alice:operator:" + drawn + secret)); strings.Contains(good, secret) || strings.Contains(good, "alice") {
		t.Errorf("printed:\n%s", good)
	}
}

func TestTokensThatWouldOpenMoreThanTheyCloseDoNotStart(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(empty, []byte("\n\n , \n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var many []string
	for i := range 101 {
		many = append(many, fmt.Sprintf("p%d:viewer:%s%d", i, drawn, i))
	}
	for name, test := range map[string]struct {
		variables []string
		says      string
	}{
		"a file that lost its lines": {[]string{"SERVER_TOKENS_FILE=" + empty}, "SERVER_TOKENS: has no entry"},
		"too many":                   {[]string{"SERVER_TOKENS=" + strings.Join(many, ",")}, "101 entries, and 100 are the limit"},
		"the token once more":        {[]string{"SERVER_TOKEN=" + drawn, "SERVER_TOKENS=alice:viewer:" + drawn}, "entry 1 has the secret of the token that stands alone"},
		"a role beside the token":    {[]string{"SERVER_TOKEN=alice:viewer:" + drawn}, "SERVER_TOKEN: has the form name:role:token: who is to have a role is an entry of SERVER_TOKENS"},
		"a token of a word":          {[]string{"SERVER_TOKEN=short"}, "SERVER_TOKEN: must have 20 to 1000 characters, so that nobody guesses it: openssl rand -hex 16 makes one (from environment SERVER_TOKEN)"},
		"a token one too short":      {[]string{"SERVER_TOKEN=" + drawn[:19]}, "SERVER_TOKEN: must have 20 to 1000 characters"},
		"a token that is too long":   {[]string{"SERVER_TOKEN=" + strings.Repeat("a", 1001)}, "SERVER_TOKEN: must have 20 to 1000 characters"},
		"a token that no header has": {[]string{"SERVER_TOKEN=" + drawn + " " + drawnB}, "SERVER_TOKEN: must be of letters, digits"},
		"a user without a token":     {[]string{"SERVER_USER_HEADER=X-Forwarded-User"}, "SERVER_USER_HEADER: \"X-Forwarded-User\" is believed only beside a token: set SERVER_TOKENS or SERVER_TOKEN"},
		"a user in a header of ours": {[]string{"SERVER_TOKEN=" + drawn, "SERVER_USER_HEADER=cookie"}, "none of Authorization, Proxy-Authorization, Cookie"},
		"a user who is the host":     {[]string{"SERVER_TOKEN=" + drawn, "SERVER_USER_HEADER=host"}, "none of Authorization, Proxy-Authorization, Cookie, Host"},
		"a user in no header":        {[]string{"SERVER_TOKEN=" + drawn, "SERVER_USER_HEADER=a b"}, "must be the name of a header"},
	} {
		if got := said(source(test.variables...)); !strings.Contains(got, test.says) {
			t.Errorf("%s: %s", name, got)
		}
	}
	for _, good := range []string{"SERVER_TOKENS=alice:viewer:" + drawn, "SERVER_TOKEN=" + drawn[:20]} {
		if _, err := config.Load(source(good, "SERVER_USER_HEADER=X-Forwarded-User")); err != nil {
			t.Error(err)
		}
	}
}

func TestATraceMayBeNamedByThePathTheQueryOrTheFragmentOfItsPage(t *testing.T) {
	for _, url := range []string{"https://traces.example.com/t/{trace_id}", "https://traces.example.com?id={trace_id}", "http://localhost:16686#{trace_id}"} {
		cfg, err := config.Load(source("SERVER_TRACE_URL=" + url))
		if err != nil || cfg.Server.TraceURL != url {
			t.Errorf("%s: %v", url, err)
		}
	}
}
