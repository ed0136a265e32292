package envelope

import (
	"testing"
	"time"

	"github.com/stepwell/stepwell"
)

func TestAPointerTakesBackItsOwnRecordAndNoOther(t *testing.T) {
	at := time.UnixMilli(1_700_000_000_123)
	tests := map[string]struct {
		record stepwell.Message
		ok     bool
	}{
		"its own":                        {stepwell.Message{Time: at.UTC(), Value: []byte("value"), Key: []byte("k")}, true},
		"another time":                   {stepwell.Message{Time: at.Add(time.Millisecond), Value: []byte("value")}, false},
		"another size":                   {stepwell.Message{Time: at, Value: []byte("values")}, false},
		"a tombstone in a value's place": {stepwell.Message{Time: at}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			e := &Envelope{Message: stepwell.Message{ID: "t:0:1", Time: at, Value: []byte("value"), Attempt: 1, Origin: stepwell.Origin{Topic: "t", Offset: 1}}}
			e.Point()
			back, err := Decode(e.Encode())
			if err != nil {
				t.Fatal(err)
			}
			if ok := back.Restore(&test.record); ok != test.ok || back.Pointer == ok {
				t.Fatalf("restored %t, want %t; pointer %t", ok, test.ok, back.Pointer)
			}
			if test.ok && (string(back.Message.Value) != "value" || string(back.Message.Key) != "k" || back.Message.ID != "t:0:1") {
				t.Errorf("restored %+v", back.Message)
			}
		})
	}
}
