package rabbit

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

func rabbitMQ(version string) release {
	return newRelease(amqp.Table{"product": "RabbitMQ", "version": version})
}

func TestOnlyRabbitMQOf310OrNewerIsTaken(t *testing.T) {
	for version, taken := range map[string]bool{
		"3.10.8": true, "3.10.0-rc.1": true, "4.3.6": true, "10.0": true, "3.9.99": false, "2.11.1": false, "": false, "junk": false, "a.b": false,
	} {
		err := rabbitMQ(version).check()
		if (err == nil) != taken || err != nil && !errors.Is(err, errTooOld) {
			t.Errorf("version %q: %v", version, err)
		}
	}
	if err := newRelease(amqp.Table{"product": "Other", "version": "4.0"}).check(); !errors.Is(err, errTooOld) {
		t.Errorf("another product: %v", err)
	}
	if err := newRelease(nil).check(); !errors.Is(err, errTooOld) {
		t.Errorf("a broker that does not say what it is: %v", err)
	}
}

func TestReleasesWhoseQueuesAreKnownToStickAreWarnedOfOnce(t *testing.T) {
	for version, sticks := range map[string]bool{"3.10.8": true, "3.13.7": true, "4.0.5": true, "4.1.0": false, "4.3.6": false, "10.0.0": false} {
		if caveat := rabbitMQ(version).caveat(); (caveat != "") != sticks {
			t.Errorf("%s: %q", version, caveat)
		}
	}
	var out bytes.Buffer
	var met releases
	for _, version := range []string{"4.0.5", "4.0.5", "4.3.6", "3.10.8", "4.0.5", "3.10.8"} {
		met.warn(slog.New(slog.NewTextHandler(&out, nil)), rabbitMQ(version))
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], "RabbitMQ 4.0.5") || !strings.Contains(lines[1], "RabbitMQ 3.10.8") {
		t.Errorf("the log says %q", lines)
	}
}
