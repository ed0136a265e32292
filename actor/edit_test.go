package actor_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
)

// A copy that had an id of a copy before would be taken for a repeat of that, and acked uncalled.
func TestAMessageIsEditedHandledUndoneAndEditedAgainToTheSameAndHandledAgain(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		var handled calls
		r := w.start(orders(func(_ context.Context, m *stepwell.Message) error {
			if !strings.HasPrefix(string(m.Value), "good") {
				return stepwell.DeadLetter(errors.New("no such customer"))
			}
			handled.add(m)
			return nil
		}), settings{"DEAD_SET_EDIT": "true"})
		w.produce(numbered(3)...)
		before := r.deadCount(3)
		id := fmt.Sprint(before[1]["id"])
		for n := range 2 {
			status, o := r.do("POST", "/v1/dead_set/messages/"+id+"/edit", `{"stream":"orders","value":"good"}`)
			if status != 200 || o["state"] != "done" || !strings.HasPrefix(fmt.Sprint(o["edited_id"]), id+"~op_") {
				t.Fatalf("%d %v", status, o)
			}
			eventually(t, "the copy is handled", func() bool { return len(handled.all()) == n+1 })
			r.deadCount(2)
			if trash := r.inTrash(fmt.Sprint("&operation=", o["id"])); len(trash) != 1 || valuesOf(trash) != valuesOf(before[1:2]) {
				t.Errorf("in the trash: %v", trash)
			}
			if back := r.operate(fmt.Sprintf(`{"action":"restore","stream":"orders","select":{"operation":%q},"expect":1}`, o["id"])); back["state"] != "done" || back["done"] != 1.0 {
				t.Fatalf("restore: %v", back)
			}
			r.deadCount(3)
		}
	})
}

func TestWithoutTheSettingNothingIsEdited(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		r := w.start(dies(), nil)
		w.produce(numbered(1)...)
		id := r.deadCount(1)[0]["id"]
		status, answer := r.do("POST", fmt.Sprint("/v1/dead_set/messages/", id, "/edit"), `{"stream":"orders","value":"x"}`)
		if status != 409 || !strings.Contains(fmt.Sprint(answer["detail"]), "DEAD_SET_EDIT=true") {
			t.Errorf("%d %v", status, answer)
		}
		r.deadCount(1)
	})
}

// No pointer can stand for an edited copy: one that just fits into a queue would find no place with
// its first failure, and be called every minute for ever.
func TestAnEditedCopyLeavesRoomForWhatItsFailuresAdd(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		cfg := w.takesLittle() // 100 KiB
		cfg["DEAD_SET_EDIT"] = "true"
		r := w.start(orders(func(_ context.Context, m *stepwell.Message) error {
			return stepwell.DeadLetter(errors.New(strings.Repeat("no such customer ", 100)))
		}), cfg)
		w.produce(numbered(1)...)
		id := fmt.Sprint(r.deadCount(1)[0]["id"])
		edit := func(id string, size int) (int, map[string]any) {
			value := base64.StdEncoding.EncodeToString(noise(size))
			return r.do("POST", "/v1/dead_set/messages/"+id+"/edit", fmt.Sprintf(`{"stream":"orders","encoding":"base64","value":%q}`, value))
		}
		if status, o := edit(id, 100<<10-400); status != 413 || !strings.Contains(fmt.Sprint(o["detail"]), "RABBITMQ_MAX_MESSAGE_SIZE") {
			t.Errorf("one that just fits: %d %v", status, o)
		}
		if kept := r.inTrash(""); len(kept) > 0 {
			t.Errorf("nothing was edited, and in the trash: %v", kept)
		}
		status, o := edit(id, 35<<10)
		if status != 200 {
			t.Fatalf("%d %v", status, o)
		}
		eventually(t, "the copy dies", func() bool { all := r.dead(10); return len(all) == 1 && all[0]["id"] == o["edited_id"] })
	})
}
