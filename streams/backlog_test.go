package streams

import (
	"testing"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kgo"
)

// fetchedAt is what one fetch brought, all of it slices of the same memory.
func fetchedAt(offset int64, n int) (memory []byte, records []*kgo.Record) {
	memory = make([]byte, 3*n)
	for i := range n {
		at := memory[3*i : 3*i+3]
		records = append(records, &kgo.Record{Topic: "t", Offset: offset + int64(i), Key: at[:1], Value: at[1:2], Headers: []kgo.RecordHeader{{Key: "h", Value: at[2:]}}})
	}
	return memory, records
}

func TestWhatIsTakenOfABacklogComesInOrderAndOnce(t *testing.T) {
	t.Parallel()
	b := backlog{slab: newSlab("orders", topicPartition{"t", 0})}
	_, first := fetchedAt(0, slabSize+10)
	_, second := fetchedAt(int64(slabSize)+10, 5)
	b.add(first, 7)
	b.add(second, 8)
	var want int64
	for _, step := range []struct {
		next, take int
		at         int64
	}{
		{slabSize, 3, 7}, {slabSize, slabSize, 7}, {7, 7, 7}, {5, 5, 8},
	} {
		if n := len(b.next()); n != step.next {
			t.Errorf("%d come next, want %d", n, step.next)
		}
		messages, at := b.take(step.take)
		if len(messages) != step.take || at != step.at {
			t.Errorf("took %d that were fetched at %d, want %d at %d", len(messages), at, step.take, step.at)
		}
		for _, m := range messages {
			if m.Origin.Offset != want {
				t.Errorf("offset %d, want %d", m.Origin.Offset, want)
			}
			want++
		}
	}
	if !b.isEmpty() {
		t.Error("something is left")
	}
}

func TestWhatWaitsInABacklogForLongLetsGoOfItsFetch(t *testing.T) {
	t.Parallel()
	var b backlog
	var fetches [4][]byte
	for i := range fetches {
		memory, records := fetchedAt(int64(2*i), 2)
		fetches[i] = memory
		b.add(records, int64(i))
	}
	b.own(1, 3)
	for i, c := range b.chunks {
		for _, r := range c.records {
			for what, is := range map[string][]byte{"key": r.Key, "value": r.Value, "header": r.Headers[0].Value} {
				from := uintptr(unsafe.Pointer(unsafe.SliceData(fetches[i])))
				at := uintptr(unsafe.Pointer(unsafe.SliceData(is)))
				own := at < from || at >= from+uintptr(len(fetches[i]))
				if want := i == 1 || i == 2; own != want {
					t.Errorf("the %s of offset %d has memory of its own: %t, want %t", what, r.Offset, own, want)
				}
			}
		}
	}
}
