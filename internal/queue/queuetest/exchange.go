package queuetest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stepwell/stepwell/internal/queue"
)

func binding() map[string]func(*testing.T, *world) {
	return map[string]func(*testing.T, *world){
		"AKeyOfABindingIsThatOfATopicExchange":                topicKeys,
		"WhatTwoKeysTakeComesOnceAndIsTheSameWhenItComesBack": comesOnce,
		"AFurtherKeyIsBesideTheFormer":                        furtherKey,
	}
}

// bind has queues made that are bound to an exchange of the test's own, each by one of keys, and
// returns what publishes to that.
func (w *world) bind(t *testing.T, specs []queue.Spec) (publish func(key string) (taken bool)) {
	t.Helper()
	for _, s := range specs {
		w.sources = append(w.sources, s.Name)
	}
	to := w.place.Exchange(t, specs[0].Exchange)
	if err := w.Declare(within(t), specs); err != nil {
		t.Fatalf("Declare: %v", err)
	}
	return func(key string) bool { return to(key, queue.Message{ID: "id", Body: []byte(key)}) }
}

func (w *world) source(number int, keys ...string) queue.Spec {
	return queue.Spec{Name: fmt.Sprintf("%s.source.%d", w.instant, number), Kind: queue.Source, Exchange: w.instant + ".exchange", Keys: keys}
}

// A word is what is between two dots, and may be empty; * is one word, # is none or more.
func topicKeys(t *testing.T, w *world) {
	keys := []string{"", "a", "a.", "a.b", "a..b", "a.x.b", "a.x.y.b", "b.a"}
	tests := []struct {
		binding string
		takes   []string
	}{
		{"", keys[:1]},
		{"a", keys[1:2]},
		{"*", keys[1:2]},
		{"a*", nil},
		{"#", keys},
		{"#.#", keys},
		{"*.#", keys[1:]},
		{"#.*", keys[1:]},
		{"a.*", keys[2:4]},
		{"a.#", keys[1:7]},
		{"a.*.b", keys[4:6]},
		{"a.#.b", keys[3:7]},
		{"#.b", keys[3:7]},
		{"#.x.#.b", keys[5:7]},
	}
	var specs []queue.Spec
	for i, test := range tests {
		specs = append(specs, w.source(i, test.binding))
	}
	publish := w.bind(t, specs)
	for _, key := range keys {
		if !publish(key) {
			t.Errorf("nothing takes %q", key)
		}
	}
	for i, test := range tests {
		k := w.consumeWith(t, queue.Consumption{Queue: specs[i].Name, Foreign: true})
		var came []string
		for range test.takes {
			d := k.take(t, 1)[0]
			came = append(came, d.Foreign.RoutingKey)
			d.Ack()
		}
		k.quit(t)
		w.depthIs(t, specs[i].Name, 0)
		if !slices.Equal(came, test.takes) {
			t.Errorf("by %q came %q, not %q", test.binding, came, test.takes)
		}
	}
}

func comesOnce(t *testing.T, w *world) {
	spec := w.source(0, "a.*", "#.b")
	publish := w.bind(t, []queue.Spec{spec})
	if publish("c") {
		t.Error("a key that no binding takes was taken")
	}
	if !publish("a.b") {
		t.Error("a key that two bindings take was not taken")
	}
	k := w.consumeWith(t, queue.Consumption{Queue: spec.Name, Foreign: true})
	for _, again := range []bool{false, true} {
		d := k.take(t, 1)[0]
		if d.Foreign.Exchange != spec.Exchange || d.Foreign.RoutingKey != "a.b" || d.ID != "id" || string(d.Body) != "a.b" || d.Redelivered != again {
			t.Errorf("it came as %+v by %+v", d, d.Foreign)
		}
		if again {
			d.Ack()
			break
		}
		d.Foreign.RoutingKey = "!"
		d.Release()
	}
	k.quit(t)
	w.depthIs(t, spec.Name, 0)
}

// A queue stays bound by a key that is left out: it is unbound by hand.
func furtherKey(t *testing.T, w *world) {
	publish := w.bind(t, []queue.Spec{w.source(0, "a")})
	further := w.source(0, "b")
	if err := w.Declare(within(t), []queue.Spec{further}); err != nil {
		t.Fatalf("Declare: %v", err)
	}
	if !publish("a") || !publish("b") {
		t.Error("one of both keys was not taken")
	}
	w.depthIs(t, further.Name, 2)
}
