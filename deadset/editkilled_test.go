package deadset_test

import (
	"slices"
	"testing"

	"github.com/stepwell/stepwell/deadset"
	"github.com/stepwell/stepwell/internal/queue"
)

func TestAnEditThatIsKilledLosesNothingAndCanBeAskedForAgain(t *testing.T) {
	const id = "t:0:7"
	marks := []string{
		"pages proven:1", "walk held:1", "walk published:1", "published:1", "confirmed:1", "edit kept:1", "published:2", "confirmed:2",
		"walk confirmed:1", "walk acked:1", "walk closed:1",
	}
	killing(t, "edit", false, marks, func(t *testing.T, k killed) {
		defer emptyTrash(t, k, k.cfg.Queue)
		_, left := everythingIn(t, k, k.cfg.Queue)
		gone, sent := inTrash(t, k, k.cfg.Queue), ids(t, k, k.cfg.Instant)
		isLeft, isKept, isSent := slices.Contains(left, id), slices.Contains(gone, id), slices.Equal(sent, []string{id + "~op_1"})
		isWhole := isLeft || isKept && isSent
		if !isWhole || isSent && !isKept || len(gone) > 1 || len(sent) > 1 {
			t.Errorf("left %v, in the trash %v, sent %v", left, gone, sent)
		}
		k.goesOn(t, "edit again")
		_, left = everythingIn(t, k, k.cfg.Queue)
		others := slices.DeleteFunc(from(0, buried), func(of string) bool { return of == id })
		gone, again := inTrash(t, k, k.cfg.Queue), ids(t, k, k.cfg.Instant)
		if want := append(sent, id+"~op_2"); isLeft && !slices.Equal(again, want) || !isLeft && !slices.Equal(again, sent) {
			t.Errorf("after another edit %v were sent, %v before", again, sent)
		}
		if !slices.Equal(left, others) || !slices.Equal(once(gone), []string{id}) {
			t.Errorf("after another edit: left %v, in the trash %v", left, gone)
		}
	})
}

func TestAnEditOnRabbitMQSendsTheCopyAndKeepsWhatWasThere(t *testing.T) {
	onRabbitMQ(t, 3, func(t *testing.T, url string, b queue.Broker, cfg deadset.Config) {
		withTrash(t, url, cfg.Queue)
		cfg.TrashPages = 8
		s := deadset.New(cfg)
		value := []byte("edited")
		as, err := s.Trash(keep).Edit(t.Context(), "op_1", "t:0:1", deadset.Edit{Value: &value})
		if err != nil || as != "t:0:1~op_1" {
			t.Fatalf("%q, %v", as, err)
		}
		if got := idsWhenFree(t, b, cfg.Queue); !slices.Equal(got, []string{"t:0:0", "t:0:2"}) {
			t.Errorf("left: %v", got)
		}
		if got := inTrash(t, b, cfg.Queue); !slices.Equal(got, []string{"t:0:1"}) {
			t.Errorf("in the trash: %v", got)
		}
		sent := take(t, b, cfg.Instant)
		if len(sent) != 1 || sent[0].ID != as || string(sent[0].Body) != "edited" {
			t.Errorf("sent: %+v", sent)
		}
	})
}
