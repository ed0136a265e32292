package inbox

import (
	"errors"
	"time"

	"github.com/stepwell/stepwell/internal/envelope"
	"github.com/stepwell/stepwell/internal/queue"
)

// upgradeTime is how long messages of a newer version are sent around, so that a newer program of a
// rolling upgrade finds them.
const upgradeTime = time.Hour

// unreadable is for a delivery that cannot be decoded. While it may be of a newer version it waits
// a little, unchanged, and comes back, perhaps to a newer program; else it is buried as it is. So
// is what leaves no room for the header that says since when it waits: it would wait for ever.
func (d delivery) unreadable(problem error) {
	r := d.run
	bury := func() { r.cfg.Owner.BuryUnreadable(d.work, d.Message, problem, d.buried) }
	now := time.Now()
	m, since := envelope.Unreadable(d.Message, now)
	if !errors.Is(problem, envelope.ErrVersion) || r.cfg.Wait == "" || now.Sub(since) >= upgradeTime {
		bury()
		return
	}
	d.replace(r.cfg.Wait, m, func(err error) {
		switch {
		case errors.Is(err, queue.ErrTooLarge):
			bury()
		case err != nil:
			d.rest(d.ID, err, d.release)
		case since.Equal(now):
			r.cfg.Logger.Warn("message of a newer version: it waits up to an hour for a program that can read it", "queue", d.Queue, "id", d.ID)
		}
	})
}

// buried is called when the message is safe in the dead set, or could not be put there.
func (d delivery) buried(err error) {
	if err != nil {
		d.rest(d.ID, err, d.release)
		return
	}
	d.ack()
}
