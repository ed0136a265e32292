package filter

import (
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
)

var now = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

func dead() *Message {
	return &Message{
		Message: &stepwell.Message{
			ID: "orders.v1:3:8812", Key: []byte("customer-7"), Value: []byte(`{"order":{"id":12345678901234567890,"lines":[{"sku":"a"},{"sku":"b"}],"paid":true,"note":null}}`),
			Headers: []stepwell.Header{{Key: "tenant", Value: []byte("acme")}, {Key: "tenant", Value: []byte("other")}, {Key: "nil"}},
			Origin:  stepwell.Origin{Topic: "orders.v1", Partition: 3, Offset: 8812}, Replays: 1,
		},
		Reason: "exhausted", Error: "charge order 17: status 503", ErrorType: "*url.Error", TraceID: "4bf92f3577b34da6a3ce929d0e0e4736",
		DiedAt: now.Add(-time.Hour), AttemptsTotal: 8, Group: "7f3a91c2b04d", ReplayedBy: "op_17",
	}
}

func TestAFilterIsTrueOfWhatItSays(t *testing.T) {
	for name, texts := range map[string]struct{ is, isNot []string }{
		"id":                      {[]string{"orders.v1:3:8812"}, []string{"orders.v1:3:881", "ORDERS.v1:3:8812"}},
		"group":                   {[]string{"7f3a91c2b04d"}, []string{"7f3a91c2b04e"}},
		"reason":                  {[]string{"exhausted"}, []string{"dead_letter", "decode", "undecodable", "too_large", "gone", "crash_loop"}},
		"error":                   {[]string{"status 503", "charge order 17: status 503"}, []string{"status 502", "Status"}},
		"error_re":                {[]string{`status 50\d$`, "(?i)STATUS"}, []string{"^status"}},
		"error_type":              {[]string{"*url.Error"}, []string{"url.Error"}},
		"topic":                   {[]string{"orders.v1"}, []string{"orders"}},
		"partition":               {[]string{"3"}, []string{"2"}},
		"offset_from":             {[]string{"0", "8812"}, []string{"8813"}},
		"offset_to":               {[]string{"8812", "9000"}, []string{"8811"}},
		"key":                     {[]string{"customer-7"}, []string{"customer-"}},
		"key_prefix":              {[]string{"customer-"}, []string{"ustomer"}},
		"died_from":               {[]string{"1h", "2h", "2026-01-31T11:00:00Z", "2026-01-31T12:00:00+01:00"}, []string{"59m", "2026-01-31T11:00:01Z"}},
		"died_to":                 {[]string{"1h", "0s", "2026-01-31T11:00:00Z"}, []string{"61m"}},
		"attempts_min":            {[]string{"8", "1"}, []string{"9"}},
		"replays_max":             {[]string{"1", "2"}, []string{"0"}},
		"replayed_by":             {[]string{"op_17"}, []string{"op_1", "OP_17"}},
		"trace_id":                {[]string{"4bf92f3577b34da6a3ce929d0e0e4736"}, []string{"4bf9"}},
		"value":                   {[]string{`"sku":"b"`}, []string{`"sku":"c"`}},
		"header.tenant":           {[]string{"other"}, []string{"acme", "othe"}},
		"header.nil":              {nil, []string{"x"}},
		"header.none":             {nil, []string{"x"}},
		"value.order.id":          {[]string{"12345678901234567890"}, []string{"12345678901234567000"}},
		"value.order.paid":        {[]string{"true"}, []string{"false"}},
		"value.order.note":        {nil, []string{"null"}},
		"value.order.lines.1.sku": {[]string{"b"}, []string{"a"}},
		"value.order.lines.2.sku": {nil, []string{"a"}},
		"value.order.id.more":     {nil, []string{"12345678901234567890"}},
		"value.order":             {nil, []string{"{}"}},
	} {
		if !Known(name) {
			t.Errorf("%s is not known", name)
		}
		for want, all := range map[bool][]string{true: texts.is, false: texts.isNot} {
			for _, text := range all {
				f, err := Parse(map[string]string{name: text}, now)
				if err != nil {
					t.Errorf("%s=%s: %v", name, text, err)
				} else if got := f.Match(dead()); got != want || f.IsZero() {
					t.Errorf("%s=%s is %v", name, text, got)
				}
			}
		}
	}
}

func TestAFilterIsTrueOfAMessageOfWhichAllItsPartsAre(t *testing.T) {
	for text, want := range map[string]bool{"orders.v1": true, "payments": false} {
		f, err := Parse(map[string]string{"reason": "exhausted", "topic": text}, now)
		if err != nil || f.Match(dead()) != want || f.String() != `reason="exhausted" topic="`+text+`"` {
			t.Errorf("%s: %v, %v", f, f.Match(dead()), err)
		}
	}
	if all := (Filter{}); !all.IsZero() || !all.Match(dead()) {
		t.Error("the zero filter")
	}
}

func TestAReasonThatThereIsNotIsNotTakenForOneOfWhichNobodyDied(t *testing.T) {
	if _, err := Parse(map[string]string{"group": "7f3a"}, now); err == nil || err.Error() != `group must be a group as it is listed, 12 hexadecimal digits, not "7f3a"` {
		t.Errorf("%v", err)
	}
	_, err := Parse(map[string]string{"reason": "exausted"}, now)
	if want := `reason must be one of exhausted, dead_letter, decode, undecodable, too_large, gone, crash_loop, not "exausted"`; err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
}

func TestOfWhatIsNotKnownNothingIsTrue(t *testing.T) {
	for _, name := range []string{"partition", "offset_from", "died_from", "died_to", "key_prefix", "value.a"} {
		text := map[string]string{"key_prefix": "k", "value.a": "1"}[name]
		if text == "" {
			text = "0"
		}
		if strings.HasPrefix(name, "died") {
			text = "10h"
		}
		f, err := Parse(map[string]string{name: text}, now)
		if err != nil || f.Match(&Message{Message: &stepwell.Message{Value: []byte("no JSON")}}) {
			t.Errorf("%s: %v", f, err)
		}
	}
}

func TestAllMistakesOfAFilterAreToldAtOnce(t *testing.T) {
	_, err := Parse(map[string]string{
		"reason": "", "partition": "-1", "offset_from": "1e3", "died_from": "yesterday", "died_to": "-2h", "error_re": "(", "resaon": "x", "header.": "x", "attempts_min": strings.Repeat("9", 99),
	}, now)
	if err == nil {
		t.Fatal("no mistake")
	}
	for _, want := range []string{
		"reason is empty", `partition must be a whole number from 0 on, not "-1"`, `offset_from must be`, `died_from must be a time`, `died_to must be a time`,
		"error_re is no RE2 expression", "resaon is no parameter", "header. is no parameter", "attempts_min must be",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nlacks %s", err, want)
		}
	}
	if _, err := Parse(map[string]string{"error_re": strings.Repeat("a", maxExpression+1)}, now); err == nil || !strings.Contains(err.Error(), "501 bytes") {
		t.Error(err)
	}
}

func TestEachNameIsKnownAndHasATest(t *testing.T) {
	for _, name := range Names() {
		if name = strings.NewReplacer("<name>", "a", "<path>", "a").Replace(name); !Known(name) {
			t.Errorf("%s is not known", name)
		}
	}
	if Known("header.") || Known("limit") || Known("") {
		t.Error("what is no parameter is known")
	}
}

func FuzzFilter(f *testing.F) {
	f.Add("value.a.b", "1", []byte(`{"a":{"b":1}}`))
	f.Add("error_re", "a*", []byte("[[["))
	f.Add("died_from", "2h", []byte(nil))
	f.Fuzz(func(t *testing.T, name, text string, value []byte) {
		made, err := Parse(map[string]string{name: text}, now)
		if err != nil {
			if !made.IsZero() {
				t.Fatal("a filter beside a mistake")
			}
			return
		}
		m := dead()
		m.Value, m.Key, m.Error = value, value, string(value)
		made.Match(m)
		if made.IsZero() || made.String() == "" {
			t.Fatalf("%s=%s asks for nothing", name, text)
		}
	})
}

func TestAllAndIDsAreAskedForAndSaySo(t *testing.T) {
	for f, want := range map[string]struct {
		filter Filter
		is     bool
	}{
		"all":   {All(), true},
		"2 ids": {IDs([]string{"orders.v1:3:8812", "x", "x"}), true},
		"1 ids": {IDs([]string{"orders.v1:3:88"}), false},
		"0 ids": {IDs(nil), false},
	} {
		if want.filter.IsZero() || want.filter.Match(dead()) != want.is || want.filter.String() != f {
			t.Errorf("%s: %s, %t", f, want.filter, want.filter.Match(dead()))
		}
	}
}

// What is remembered of a dead message is no more than this: a filter that looks at anything else
// has to say so, or it would be false of all that is remembered.
func TestAFilterThatLooksAtMoreOfAMessageThanIsRememberedSaysSo(t *testing.T) {
	whole := dead()
	m := whole.Message
	remembered := *whole
	remembered.TraceID = ""
	remembered.Message = &stepwell.Message{ID: m.ID, Origin: m.Origin, Replays: m.Replays}
	texts := map[string]string{
		"id": m.ID, "group": whole.Group, "reason": whole.Reason, "error": "status", "error_re": "^charge", "error_type": whole.ErrorType,
		"topic": m.Origin.Topic, "partition": "3", "offset_from": "8812", "offset_to": "8812", "key": "customer-7", "key_prefix": "customer",
		"died_from": "2h", "died_to": "1s", "attempts_min": "8", "replays_max": "1", "replayed_by": "op_17", "trace_id": whole.TraceID, "value": "order",
		"header.tenant": "other", "value.order.paid": "true",
	}
	for _, name := range Names() {
		name = strings.NewReplacer("<name>", "tenant", "<path>", "order.paid").Replace(name)
		f, err := Parse(map[string]string{name: texts[name]}, now)
		if err != nil {
			t.Fatal(name, err)
		}
		if !f.Match(whole) || f.ReadsRecords() == f.Match(&remembered) {
			t.Errorf("%s: true of the whole message: %t, of what is remembered: %t; it reads records: %t", name, f.Match(whole), f.Match(&remembered), f.ReadsRecords())
		}
	}
}
