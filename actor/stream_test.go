package actor

import (
	"testing"

	"github.com/stepwell/stepwell/config"
)

func TestAPauseThatComesBeforeTheSourceIsThereHoldsItBack(t *testing.T) {
	app := App{Name: "shop", Streams: Streams{"orders": {Handler: succeed, Config: config.Stream{Topics: []string{"orders.v1"}}}}}
	cfg, err := Load(app, []string{"KAFKA_BROKERS=127.0.0.1:1", "RETRY_ENABLED=false"})
	if err != nil {
		t.Fatal(err)
	}
	a, err := New(cfg, app)
	if err != nil {
		t.Fatal(err)
	}
	s := a.streams[0]
	s.Pause("alice")
	if err := s.open(nil); err != nil {
		t.Fatal(err)
	}
	if of := s.kafka.reader.Load().Status(); !of.Paused {
		t.Error("the reader begins as if nobody had paused the stream")
	}
	s.Resume()
	if of := s.kafka.reader.Load().Status(); of.Paused {
		t.Error("the reader is paused after the pause")
	}
}
