package console_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// What is in the record that died in channel slow.
const (
	keyMark    = "slow-KeyMark"
	valueMark  = "ValueMark"
	headerMark = "HeaderMark"
)

// looks are all ways to find out what is in a record, of GETs and of a POST that changes nothing.
// One that is refused needs the right, whatever it would find; the others leave it out.
func looks(id string) []struct {
	path, body string
	refused    bool
} {
	type look = struct {
		path, body string
		refused    bool
	}
	const v1, of = "/v1/dead_set", "?stream=orders&channel=slow"
	one := v1 + "/messages/" + url.PathEscape(id) + of
	page := "/console/message" + of + "&id=" + url.QueryEscape(id)
	wish := func(selects string) string {
		return `{"action":"replay","stream":"orders","channel":"slow","dry_run":true,"select":` + selects + "}"
	}
	all := []look{
		{path: v1 + of + "&count=5"}, {path: v1 + of + "&limit=5"}, {path: v1 + of + "&error=archive"}, {path: v1 + "/groups" + of}, {path: one},
		{path: one + "&part=value", refused: true}, {path: one + "&part=key", refused: true}, {path: v1 + "/export" + of, refused: true},
		{path: "/console/groups" + of}, {path: "/console/messages" + of}, {path: page}, {path: page + "&view=raw"}, {path: page + "&view=hex"},
		{path: "/console/edit" + of + "&id=" + url.QueryEscape(id), refused: true},
		{path: "/console/save" + of + "&part=value&id=" + url.QueryEscape(id), refused: true}, {path: "/console/export" + of, refused: true},
		{path: v1 + "/operations", body: wish(`{"all":true}`)}, {path: v1 + "/operations", body: wish(`{"ids":["` + id + `"]}`)},
		// An id that is there, and one that is not: both say the same.
		{path: strings.Replace(one, "8", "9", 1) + "&part=value", refused: true},
	}
	for _, filter := range [][2]string{
		{"key", keyMark}, {"key_prefix", "slow-K"}, {"value", "Value"}, {"value.secret", valueMark}, {"header.tenant", headerMark},
		{"key", "other"}, {"value.secret", "other"}, {"header.none", "x"},
	} {
		asks := "&" + url.Values{filter[0]: {filter[1]}}.Encode()
		for _, path := range []string{v1 + of + asks, v1 + of + asks + "&cursor=none", v1 + "/groups" + of + asks, v1 + "/export" + of + asks, "/console/groups" + of + asks, "/console/messages" + of + asks, "/console/confirm" + of + asks + "&action=replay"} {
			all = append(all, look{path: path, refused: true})
		}
		all = append(all, look{path: v1 + "/operations", body: wish(fmt.Sprintf(`{"filter":{%q:%q}}`, filter[0], filter[1])), refused: true})
	}
	return all
}

// marked says whether a text has something of the record.
func marked(text string) bool {
	return strings.Contains(text, "KeyMark") || strings.Contains(text, valueMark) || strings.Contains(text, headerMark) || strings.Contains(text, "tenant")
}

func TestWhoMayNotSeeValuesFindsThemOutByNoPageFilterExportOrRefusal(t *testing.T) {
	t.Parallel()
	sees := map[string]map[string]bool{ // by DEAD_SET_VALUES and role
		"viewer":   {"operator": true, "viewer": true},
		"operator": {"operator": true, "viewer": false},
		"none":     {"operator": false, "viewer": false},
	}
	tokens := map[string]string{"operator": alices, "viewer": bobs}
	for values, roles := range sees {
		w := start(t, staff, "DEAD_SET_VALUES="+values, fmt.Sprintf("DEAD_SET_EDIT=%t", values != "none"))
		id := w.secret()
		shown := 0
		for role, may := range roles {
			headers := []string{"Cookie", w.login(tokens[role]), "Authorization", "Bearer " + tokens[role]}
			for _, look := range looks(id) {
				if edit := strings.HasPrefix(look.path, "/console/edit"); edit && values == "none" {
					continue // nobody may edit
				}
				acts := look.body != "" || strings.HasPrefix(look.path, "/console/confirm") || strings.HasPrefix(look.path, "/console/edit")
				if acts && role == "viewer" {
					continue // refused for that
				}
				a := w.look(look.path, look.body, headers...)
				switch {
				case !may && marked(strings.ReplaceAll(a.text, "header.tenant", "")):
					t.Errorf("values for %s: %s reads what is hidden by %s: %s", values, role, look.path, a.text)
				case !may && look.refused && (a.status != http.StatusForbidden || !strings.Contains(a.text, "DEAD_SET_VALUES="+values)):
					t.Errorf("values for %s: %s asks %s: %d %s", values, role, look.path, a.status, a.text)
				case !may && !look.refused && a.status != http.StatusOK:
					t.Errorf("values for %s: %s asks %s: %d %s", values, role, look.path, a.status, a.text)
				case may && marked(a.text):
					shown++
				}
				if look.body != "" {
					continue
				}
				head := w.try("HEAD", look.path, nil, headers...)
				if head.header.Get("Content-Length") != a.header.Get("Content-Length") {
					a = w.look(look.path, "", headers...) // ages that a page tells have become longer
				}
				if head.status != a.status || !may && head.header.Get("Stepwell-Matched") != "" || !may && head.header.Get("Content-Length") != a.header.Get("Content-Length") {
					t.Errorf("values for %s: %s asks HEAD %s: %d %v", values, role, look.path, head.status, head.header)
				}
			}
		}
		if want := map[string]int{"viewer": 40, "operator": 20}[values]; shown < want {
			t.Errorf("values for %s: only %d ways show a record to those who may see it", values, shown)
		}
	}
}

// secret has a message die whose error says nothing of it, and returns its id.
func (w *world) secret() string {
	w.t.Helper()
	record := &kgo.Record{
		Topic: "orders.v1", Key: []byte(keyMark), Value: []byte(`{"secret":"` + valueMark + `"}`),
		Headers: []kgo.RecordHeader{{Key: "tenant", Value: []byte(headerMark)}},
	}
	if err := w.brokers.Produce(w.t.Context(), record); err != nil {
		w.t.Fatal(err)
	}
	eventually(w.t, "it is dead", func() bool {
		depth, err := w.brokers.Queues().Depth(w.t.Context(), "shipping.orders.channel.slow.dead_set")
		return err == nil && depth == 1
	})
	return "orders.v1:0:0@slow"
}

// look is a GET, or a POST of JSON.
func (w *world) look(path, body string, headers ...string) answer {
	if body == "" {
		return w.try("GET", path, nil, headers...)
	}
	return w.send("POST", path, "application/json", body, headers...)
}

// An operator may ask for what holds a value that a viewer must not read in the list of operations.
func TestWhatAFilterLooksForIsHiddenFromWhoMayNotSeeIt(t *testing.T) {
	t.Parallel()
	w := start(t, staff, "DEAD_SET_VALUES=operator")
	w.secret()
	form := url.Values{
		"stream": {"orders"}, "channel": {"slow"}, "value": {valueMark}, "header.tenant": {headerMark}, "error": {"none has it"},
		"action": {"replay"}, "before": {"2100-01-01T00:00:00Z"}, "expect": {"1"}, "once": {"o"},
	}
	alice := []string{"Cookie", w.login(alices), "Authorization", "Bearer " + alices}
	bob := []string{"Cookie", w.login(bobs), "Authorization", "Bearer " + bobs}
	to := w.post("/console/operations", form, alice[:2]...)
	for _, path := range []string{to, "/console/operations", "/console/", "/v1/dead_set/operations", "/v1/dead_set/operations/" + operationIn(to)} {
		if a := w.get(path, bob...); marked(a.text) || path != "/console/" && (!strings.Contains(a.text, "none has it") || !strings.Contains(a.text, "(hidden)")) {
			t.Errorf("%s: %s", path, a.text)
		}
		if a := w.get(path, alice...); path != "/console/" && !marked(a.text) {
			t.Errorf("%s hides it from who asked: %s", path, a.text)
		}
	}
}

// Nobody can be told apart there, and everybody is an operator.
func TestWithoutTokensValuesAreHiddenFromAllOrFromNobody(t *testing.T) {
	t.Parallel()
	for values, shows := range map[string]bool{"viewer": true, "operator": true, "none": false} {
		w := start(t, "DEAD_SET_VALUES="+values)
		id := w.secret()
		for _, path := range []string{"/v1/dead_set?stream=orders&channel=slow&count=1", "/console/message?stream=orders&channel=slow&id=" + url.QueryEscape(id)} {
			if a := w.get(path); marked(a.text) != shows {
				t.Errorf("values for %s: %s", values, a.text)
			}
		}
	}
}

// A text that turns round what stands behind it, or is not seen, must not look like another.
func TestWhatCannotBeSeenIsWrittenOutAndALinkFindsItsKey(t *testing.T) {
	t.Parallel()
	w := start(t)
	const key = "acme\u202egpj.exe\u200b\x01"
	w.die(2, &kgo.Record{Key: []byte(key), Value: []byte("{\"a\": \"x\u202ey\"}\r\n\tz\x00"), Headers: []kgo.RecordHeader{{Key: "tenant\u2066", Value: []byte("a\u00adb")}}},
		&kgo.Record{Key: []byte("acme"), Value: []byte("plain")})
	w.visit("/console/messages?stream=orders").has(t, `acme\u202egpj.exe\u200b\u0001`)
	p := w.visit("/console/message?stream=orders&id=orders.v1:0:0&view=raw")
	p.has(t, `acme\u202egpj.exe\u200b\u0001`, `"x\u202ey"} z\u0000`, `tenant\u2066`, `a\u00adb`, "a filter needs themselves", "all of them are in what is saved")
	if strings.ContainsAny(p.text, "\u202e\u200b\u2066\u00ad") {
		t.Errorf("it is still in the page: %q", p.text)
	}
	p.follow("Others with this key")
	p.has(t, "1 of 2 dead match", "orders.v1:0:0")
	if p = w.visit("/console/message?stream=orders&id=orders.v1:0:1"); strings.Contains(p.text, "cannot be seen") {
		t.Errorf("of a plain message: %s", p.text)
	}
}

func TestTheViewAsJSONSaysOfWhatItIsNone(t *testing.T) {
	t.Parallel()
	w := start(t)
	w.die(3, &kgo.Record{Value: []byte(`{"a":1}`)}, &kgo.Record{Value: []byte("no")}, &kgo.Record{Value: []byte(`["` + strings.Repeat("x", 100_000) + `"]`)})
	for at, says := range map[string]string{"0": "", "1": "This is no JSON", "2": "What is cut cannot be laid out as JSON"} {
		p := w.visit("/console/message?stream=orders&view=json&id=orders.v1:0:" + at)
		if says == "" && strings.Contains(p.text, "as in raw") || !strings.Contains(p.text, says) {
			t.Errorf("%s: %s", at, p.text)
		}
	}
}
