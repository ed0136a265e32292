package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The requests of the pages are sent as they stand, with the content types that curl gives them.
func TestTheCurlsOfThePagesWorkAsTheyStand(t *testing.T) {
	t.Parallel()
	page := read(t, "../../docs/RETRIER.md")
	if start := "\nAPP_HOSTS=localhost retrier --embedded\n"; !strings.Contains(page, start) {
		t.Fatalf("docs/RETRIER.md does not begin with %q, as this test does", start)
	}
	_, readme, _ := strings.Cut(read(t, "../../README.md"), "\n## HTTP calls, without Kafka\n")
	readme, _, _ = strings.Cut(readme, "\n## ")
	// What is removed in a sentence is made in a block further down.
	commands := slices.Concat(curls(page, inBlocks), curls(page, inSentences), curls(readme, inBlocks))
	if len(commands) != 8 {
		t.Fatalf("%d commands of the pages: are they written in another way?\n%s", len(commands), strings.Join(commands, "\n"))
	}
	receiver := newReceiver(t, always(200))
	run := newWorld(t, "").start()
	here := strings.NewReplacer("localhost:8010", "localhost:"+port(t, run.actor.Address()), "http://localhost:8080", receiver.url(""))

	said := map[string]answer{} // by method and path
	for _, command := range commands {
		c := readCurl(t, here.Replace(command))
		a, err := send(t.Context(), c.method, c.url, c.body, c.header()...)
		if err != nil || a.status < 200 || a.status > 299 {
			t.Fatalf("%s\nis answered %d %v, %v", command, a.status, a.json, err)
		}
		said[c.method+" "+c.path()] = a
		if c.path() == "/calls" && strings.Contains(command, "order-17") {
			// The page says so: the dead set is looked at after three tries.
			if fmt.Sprint(a.json) != "map[id:order-17]" || !strings.Contains(page, "\n`{\"id\":\"order-17\"}` says that the call is stored.") {
				t.Errorf("%s\nis answered %v, which the page does not say", command, a.json)
			}
			eventually(t, "the page's call is dead", func() bool { return len(run.dead()) == 1 })
		}
	}
	for of, want := range map[string]string{
		"GET /v1/dead_set":            `"id":"order-17"`,
		"POST /v1/dead_set/replay":    `"done":1`,
		"POST /retry_workflow":        `"retry_delays":[5000,10000,15000]`,
		"POST /retry":                 `"id":"17"`,
		"GET /retry_workflow":         `"name":"test"`,
		"DELETE /retry_workflow/test": `"deleted":true`,
		"POST /calls":                 `"id":`,
	} {
		text, err := json.Marshal(said[of].json)
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s was answered %s, %v, without %s", of, text, err, want)
		}
	}
	eventually(t, "the calls of both pages are made", func() bool { return receiver.count() == 2 })
	for _, got := range receiver.requests() {
		if of, h := got.path, got.header.Get("h"); got.body != `{"order":17}` && got.body != `{"order": 17}` || of != "/hook" && (of != "/charge" || h != "v") {
			t.Errorf("%s %s, h %q: %s", got.method, of, h, got.body)
		}
	}
}

// Whoever leaves the header out reads which one: curl sends the type of a form.
func TestACallWithoutItsContentTypeIsToldWhichOneIsMissing(t *testing.T) {
	t.Parallel()
	run := newWorld(t, "").start()
	c := readCurl(t, curls(read(t, "../../docs/RETRIER.md"), inBlocks)[0])
	delete(c.headers, "content-type")
	a := run.do("POST", "/calls", c.body, c.header()...)
	if want := `with content-type: application/json, not "application/x-www-form-urlencoded"`; a.status != 415 || !strings.Contains(fmt.Sprint(a.json["detail"]), want) {
		t.Errorf("%d %v, want 415 with %s", a.status, a.json, want)
	}
}

// Commands are in blocks, where each begins a line, or in sentences. What is in single quotes may
// have lines of its own.
var (
	inBlocks    = regexp.MustCompile("(?m)^curl ((?:'[^']*'|[^'\n])+)$")
	inSentences = regexp.MustCompile("`curl ((?:'[^']*'|[^'\n`])+)`")
	// word is one of a shell's: bare, or in single quotes.
	word = regexp.MustCompile(`'[^']*'|[^\s']+`)
)

// curls are what the page gives curl as arguments.
func curls(page string, where *regexp.Regexp) (commands []string) {
	for _, match := range where.FindAllStringSubmatch(page, -1) {
		commands = append(commands, match[1])
	}
	return commands
}

// curl is what a command sends; its headers are by their names in small letters.
type curl struct {
	method, url, body string
	headers           map[string]string
}

// readCurl reads the arguments of a curl. A flag that is not known ends the test: this is no curl.
func readCurl(t *testing.T, command string) *curl {
	t.Helper()
	c := &curl{headers: map[string]string{}}
	words := word.FindAllString(command, -1)
	for i := 0; i < len(words); i++ {
		next := func() string {
			if i++; i == len(words) {
				t.Fatalf("%s ends too early", command)
			}
			return strings.Trim(words[i], "'")
		}
		switch w := words[i]; w {
		case "-X":
			c.method = next()
		case "-d":
			c.body = next()
		case "-H":
			name, value, _ := strings.Cut(next(), ":")
			c.headers[strings.ToLower(name)] = strings.TrimSpace(value)
		default:
			if strings.HasPrefix(w, "-") || c.url != "" {
				t.Fatalf("%s has %s, which this test cannot read", command, w)
			}
			c.url = "http://" + strings.Trim(w, "'")
		}
	}
	if c.method == "" {
		c.method = "GET"
		if c.body != "" {
			c.method = "POST"
		}
	}
	return c
}

// header has names and values in turn. A body without a type has the one that curl gives it.
func (c *curl) header() (pairs []string) {
	if c.body != "" {
		pairs = append(pairs, "Content-Type", "application/x-www-form-urlencoded")
	}
	for name, value := range c.headers {
		pairs = append(pairs, name, value)
	}
	return pairs
}

// path is the URL's, without a query.
func (c *curl) path() string {
	_, path, _ := strings.Cut(strings.TrimPrefix(c.url, "http://"), "/")
	path, _, _ = strings.Cut(path, "?")
	return "/" + path
}

func port(t *testing.T, address string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
