package envelope

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stepwell/stepwell"
)

func TestAnEditedMessageHasAnIDOfItsOwnAndNoPositionInAnyLog(t *testing.T) {
	for _, test := range []struct{ id, operation, want string }{
		{"t:0:7", "op_1", "t:0:7~op_1"},
		{"t:0:7~op_1", "op_2", "t:0:7~op_2"}, // edited before, and died again
		{"t:0:7@slow", "op_1", "t:0:7@slow~op_1"},
		{"t:0:7~op_1@slow", "op_2", "t:0:7~op_2"},
		{"a~b", "op_1", "a~b~op_1"},
	} {
		if got := Edited(test.id, test.operation); got != test.want {
			t.Errorf("%s edited by %s is %s, want %s", test.id, test.operation, got, test.want)
		}
	}
	for id, has := range map[string]bool{"t:0:7": true, "a~b:0:7": true, "t:0:7~op_1": false, "t:0:7~op_1@slow": false, "t:0:7@slow~op_1": false} {
		e := Envelope{Message: stepwell.Message{ID: id, Origin: stepwell.Origin{Topic: "t"}}}
		if e.HasPosition() != has {
			t.Errorf("%s: %v", id, !has)
		}
	}
}

func TestThatAMessageWasEditedIsSeenHoweverLongItsIDAndItsChannelAre(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id, channel := rapid.StringN(1, 255, 255).Draw(t, "id"), rapid.StringMatching("[a-z]{1,60}").Draw(t, "channel")
		const operation = "op_g9ac6ad9518fdl9prkrmui0mto"
		once, other := Edited(id, operation), Edited(id, strings.Replace(operation, "g", "h", 1))
		if at := inChannel(once, channel); !isEdited(once) || !isEdited(at) || len(at) > maxID {
			t.Fatalf("%q, in a channel %q", once, at)
		}
		if once == other || once == id {
			t.Fatalf("%q twice", once)
		}
	})
}
