package server_test

import (
	"slices"
	"strings"
	"testing"
)

func TestAChannelHasADeadSetOfItsOwn(t *testing.T) {
	w := start(t, nil)
	tests := []struct{ name, method, path, body, says string }{
		{"peek, in the query", "GET", "/v1/dead_set?stream=orders&channel=slow&count=9", "", `"messages":["d","e"],"depth":2`},
		{"peek, in a body", "GET", "/v1/dead_set", `{"stream":"orders","channel":"slow","count":9}`, `"messages":["d","e"],"depth":2`},
		{"no channel", "GET", "/v1/dead_set?stream=orders&count=1", "", `"messages":["a"],"depth":3`},
		{"replay", "POST", "/v1/dead_set/replay?stream=orders&channel=slow&count=1", "", `"message":"replayed 1 of 1 messages of orders channel slow"`},
		{"delete", "DELETE", "/v1/dead_set?stream=orders&channel=slow&count=1", "", `"message":"deleted 1 of 1 messages of orders channel slow"`},
	}
	for _, test := range tests {
		if a := w.do(test.method, test.path, test.body); a.status != 200 || !strings.Contains(a.text, test.says) {
			t.Errorf("%s: %d %s", test.name, a.status, a.text)
		}
	}
	if got := w.slow.acts(); !slices.Equal(got, []int{1, 1}) {
		t.Errorf("the channel's dead set was acted on %v", got)
	}
	if got := w.orders.acts(); len(got) != 0 {
		t.Errorf("the stream's dead set was acted on %v", got)
	}
	if log := w.log.String(); strings.Count(log, "stream=orders requested=1 done=1 channel=slow") != 2 {
		t.Errorf("the audit is %s", log)
	}
}
