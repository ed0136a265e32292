package rabbit

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"
)

// errTooOld marks a broker that cannot be used whatever happens.
var errTooOld = errors.New("RabbitMQ 3.10 or newer is needed")

// release is what a broker says that it is.
type release struct {
	product, version string
	// major and minor are -1 where the version could not be read. Such a broker is refused as too
	// old.
	major, minor int
}

// newRelease reads what the broker said of itself in the handshake.
func newRelease(properties amqp.Table) release {
	r := release{major: -1, minor: -1}
	r.product, _ = properties["product"].(string)
	r.version, _ = properties["version"].(string)
	parts := strings.SplitN(r.version, ".", 3)
	if len(parts) < 2 {
		return r
	}
	major, errMajor := strconv.Atoi(parts[0])
	minor, errMinor := strconv.Atoi(parts[1])
	if errMajor == nil && errMinor == nil {
		r.major, r.minor = major, minor
	}
	return r
}

func (r release) String() string { return strings.TrimSpace(r.product + " " + r.version) }

// before reports whether the release is older than major.minor.
func (r release) before(major, minor int) bool {
	return r.major < major || r.major == major && r.minor < minor
}

// check returns errTooOld for what cannot be used.
func (r release) check() error {
	if r.product != "RabbitMQ" || r.before(3, 10) {
		return fmt.Errorf("connected to %q: %w", r.String(), errTooOld)
	}
	return nil
}

// caveat says what is known to go wrong with the release that an operator has to mend; empty:
// nothing is. 3.10.8 and 4.0.5 were seen to stick, 4.3.6 to come back with the queue empty.
// Releases between these two were not tried and are not blamed.
func (r release) caveat() string {
	if !r.before(4, 1) {
		return ""
	}
	return "a quorum queue of this release may answer nobody for good when its only node is killed within about a second of the queue's creation: " +
		"delete the queue then, it is declared again; it held nothing, since new queues are left alone for " + settleTime.String()
}

// releases are those that were met, so that each is warned of once.
type releases struct{ met sync.Map }

// warn logs the caveat of a release that was not met before.
func (r *releases) warn(log *slog.Logger, met release) {
	_, known := r.met.LoadOrStore(met, nil)
	if caveat := met.caveat(); caveat != "" && !known {
		log.Warn("this release of RabbitMQ is known for a fault", "product", met.String(), "fault", caveat)
	}
}
