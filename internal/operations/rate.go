package operations

import (
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// Rate is how many messages an operation acts on in a second or a minute. The zero value is no
// limit.
type Rate struct {
	Messages int
	Per      time.Duration // time.Second or time.Minute
}

const (
	// Unlimited is a rate that is none, as a text.
	Unlimited = "unlimited"
	// turnTime is how long a turn holds the dead set: a look waits 5 s for it by default.
	turnTime = 2 * time.Second
)

var rateText = regexp.MustCompile(`^([1-9][0-9]{0,6})/(s|m)$`)

// ParseRate reads 200/s, 50/m, or unlimited.
func ParseRate(text string) (Rate, error) {
	if text == Unlimited {
		return Rate{}, nil
	}
	parts := rateText.FindStringSubmatch(text)
	if parts == nil {
		return Rate{}, fmt.Errorf("must be messages a second or a minute, such as 200/s or 50/m, or %s, not %q", Unlimited, clip(text))
	}
	n, err := strconv.Atoi(parts[1])
	if err != nil {
		return Rate{}, fmt.Errorf("must be a number of messages: %w", err)
	}
	if parts[2] == "m" {
		return Rate{n, time.Minute}, nil
	}
	return Rate{n, time.Second}, nil
}

// String is the rate as [ParseRate] reads it.
func (r Rate) String() string {
	if r.Per == 0 {
		return Unlimited
	}
	unit := "/s"
	if r.Per == time.Minute {
		unit = "/m"
	}
	return strconv.Itoa(r.Messages) + unit
}

// MarshalText makes a rate a text in JSON.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText is ParseRate.
func (r *Rate) UnmarshalText(text []byte) (err error) {
	*r, err = ParseRate(string(text))
	return err
}

// batch is how many messages a turn may act on, and after how long the next one may begin. A turn
// costs a look at the dead set, so it takes what may pass in turnTime: messages come in batches
// that are this far apart. Without a limit it is all that it can.
func (r Rate) batch() (most int, every time.Duration) {
	if r.Per == 0 {
		return noLimit, 0
	}
	n := max(1, int(int64(r.Messages)*int64(turnTime)/int64(r.Per)))
	return n, r.lasts(n)
}

// lasts is how long so many messages take; 0: there is no limit.
func (r Rate) lasts(n int) time.Duration {
	if r.Per == 0 {
		return 0
	}
	return time.Duration(int64(n) * int64(r.Per) / int64(r.Messages))
}

// noLimit is more than any dead set has.
const noLimit = 1 << 30

// clip bounds what a mistake repeats.
func clip(text string) string {
	const most = 60
	if len(text) <= most {
		return text
	}
	return text[:most] + "…"
}
