package actor

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell/config"
)

func TestNoOptionOfAnAppMakesProduceReturnBeforeAllReplicasHaveTheRecord(t *testing.T) {
	a := &Actor{cfg: &config.Config{}, app: App{Kafka: func(stream string) []kgo.Opt {
		if stream != "" {
			return nil
		}
		return []kgo.Opt{kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.NoAck())}
	}}}
	client, err := kgo.NewClient(a.newProducer().options()...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if acks := client.OptValue(kgo.RequiredAcks); acks != kgo.AllISRAcks() {
		t.Errorf("acks %v", acks)
	}
}
