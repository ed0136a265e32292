package chaos

import (
	"strings"
	"time"

	"github.com/stepwell/stepwell"
)

// limit is the size from which RabbitMQ gets no message.
const limit = 16 << 20

// largeRecords produces records around the limit, all of which fail at first, and kills who carries
// them.
func largeRecords(r *run) {
	noise := r.noise(limit * 3 / 2)
	for n := range 3 {
		r.load.once(special{text: noise[:limit-1<<10]})                    // goes to RabbitMQ as it is
		r.load.once(special{text: strings.Repeat("well ", limit/4)})       // goes there when it is compressed
		r.load.once(special{text: noise, reason: stepwell.ReasonTooLarge}) // stays in Kafka: a pointer rests in the dead set
		r.sometime(2 * time.Second)
		switch n {
		case 0:
			r.rabbit.Kill()
			r.sometime(2 * time.Second)
			r.rabbit.Start()
		case 1:
			r.killOne()
		}
		r.pause(3 * time.Second)
	}
}

// noise is text that cannot be compressed to less than three quarters of it.
func (r *run) noise(size int) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	b := make([]byte, size)
	for i := range b {
		b[i] = letters[r.random.IntN(len(letters))]
	}
	return string(b)
}
