package actor_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stepwell/stepwell/internal/testbroker"
)

// secured is a world whose Kafka and RabbitMQ let in only who may come in.
type secured struct {
	*world
	kafka *testbroker.Cluster
	node  *testbroker.Rabbit
}

func (s *secured) scram() settings {
	return settings{
		"KAFKA_BROKERS":        s.kafka.Addr(testbroker.ScramTLS),
		"KAFKA_TLS_ENABLED":    "true",
		"KAFKA_TLS_CA_FILE":    s.kafka.Certs.CA,
		"KAFKA_SASL_MECHANISM": "SCRAM-SHA-512", "KAFKA_SASL_USERNAME": testbroker.KafkaUser, "KAFKA_SASL_PASSWORD": testbroker.KafkaPassword,
	}
}

func (s *secured) plain() settings {
	return settings{
		"KAFKA_BROKERS":        s.kafka.Addr(testbroker.Plain),
		"KAFKA_SASL_MECHANISM": "PLAIN", "KAFKA_SASL_USERNAME": testbroker.KafkaUser, "KAFKA_SASL_PASSWORD": testbroker.KafkaPassword,
	}
}

func (s *secured) mutual() settings {
	return settings{
		"KAFKA_BROKERS": s.kafka.Addr(testbroker.MutualTLS), "KAFKA_TLS_ENABLED": "true", "KAFKA_TLS_CA_FILE": s.kafka.Certs.CA,
		"KAFKA_TLS_CERT_FILE": s.kafka.Certs.ClientCert, "KAFKA_TLS_KEY_FILE": s.kafka.Certs.ClientKey,
	}
}

// amqps leads to the RabbitMQ that wants a client certificate.
func (s *secured) amqps() settings {
	return settings{
		"RABBITMQ_URL": s.node.TLSURL, "RABBITMQ_TLS_ENABLED": "true", "RABBITMQ_TLS_CA_FILE": s.node.Certs.CA,
		"RABBITMQ_TLS_CERT_FILE": s.node.Certs.ClientCert, "RABBITMQ_TLS_KEY_FILE": s.node.Certs.ClientKey,
	}
}

// with is env and, over it, more.
func (env settings) with(more settings) settings {
	all := maps.Clone(env)
	maps.Copy(all, more)
	return all
}

func TestAnActorWorksThroughTLSAndLoginsAndSaysWhichOfThemIsWrong(t *testing.T) {
	t.Parallel()
	kafka := testbroker.StartKafka(t, testbroker.KafkaOptions{Secure: true})
	node := testbroker.StartRabbitMQ(t, "newest", testbroker.RabbitOptions{ClientCerts: true})
	oldest := testbroker.StartRabbitMQ(t, "oldest", testbroker.RabbitOptions{TLS: true})
	others := testbroker.NewCerts(t)
	fresh := func(t *testing.T) *secured {
		s := &secured{newWorld(t), kafka, node}
		s.rabbit, s.seeds = node.URL, kafka.Bootstrap
		s.connect(kgo.SeedBrokers(kafka.Bootstrap))
		s.createTopic(s.topic, 2)
		return s
	}
	s := &secured{nil, kafka, node}
	works := map[string]settings{
		"SCRAM-SHA-512 over TLS, amqps with a client certificate": s.scram().with(s.amqps()),
		"PLAIN, amqps with an authority of our own":               s.plain().with(settings{"RABBITMQ_URL": oldest.TLSURL, "RABBITMQ_TLS_ENABLED": "true", "RABBITMQ_TLS_CA_FILE": oldest.Certs.CA}),
		"mutual TLS, amqps with a client certificate":             s.mutual().with(s.amqps()),
	}
	const wrong = "not-the-pass-word"
	refused := map[string]struct {
		env  settings
		says []string
	}{
		"Kafka, password of SCRAM": {s.scram().with(settings{"KAFKA_SASL_PASSWORD": wrong}), []string{"KAFKA_SASL_PASSWORD"}},
		"Kafka, password of PLAIN": {s.plain().with(settings{"KAFKA_SASL_PASSWORD": wrong}), []string{"KAFKA_SASL_PASSWORD"}},
		"Kafka, mechanism":         {s.scram().with(settings{"KAFKA_SASL_MECHANISM": "PLAIN"}), []string{"KAFKA_SASL_MECHANISM"}},
		"Kafka, authority":         {s.scram().with(settings{"KAFKA_TLS_CA_FILE": others.CA}), []string{"KAFKA_TLS_CA_FILE"}},
		"Kafka, client's authority": {s.mutual().with(settings{"KAFKA_TLS_CERT_FILE": others.ClientCert, "KAFKA_TLS_KEY_FILE": others.ClientKey}),
			[]string{"KAFKA_TLS_CERT_FILE"}},
		"Kafka, no TLS":                {s.scram().with(settings{"KAFKA_TLS_ENABLED": "false", "KAFKA_TLS_CA_FILE": ""}), []string{"KAFKA_TLS_ENABLED"}},
		"RabbitMQ, password":           {settings{"RABBITMQ_URL": strings.Replace(node.URL, ":guest@", ":"+wrong+"@", 1)}, []string{"[-] rabbitmq", "password in RABBITMQ_URL"}},
		"RabbitMQ, authority":          {s.amqps().with(settings{"RABBITMQ_TLS_CA_FILE": others.CA}), []string{"[-] rabbitmq", "RABBITMQ_TLS_CA_FILE"}},
		"RabbitMQ, no certificate":     {s.amqps().with(settings{"RABBITMQ_TLS_CERT_FILE": "", "RABBITMQ_TLS_KEY_FILE": ""}), []string{"[-] rabbitmq", "RABBITMQ_TLS_CERT_FILE"}},
		"RabbitMQ, virtual host":       {settings{"RABBITMQ_VHOST": "nowhere"}, []string{"[-] rabbitmq", "RABBITMQ_VHOST", "nowhere"}},
		"RabbitMQ, amqps without amqp": {settings{"RABBITMQ_URL": strings.Replace(node.URL, "amqp:", "amqps:", 1)}, []string{"[-] rabbitmq", "does not speak TLS"}},
	}
	// One after the other: parallel subtests wait until all other tests have begun, and three
	// brokers with them.
	t.Run("works", func(t *testing.T) {
		for name, env := range works {
			t.Run(name, func(t *testing.T) {
				s := fresh(t)
				y := newTally()
				r := s.start(orders(y.handler(failsOnce)), env)
				r.ready()
				s.produce(several("bad", 5)...)
				eventually(t, "all done on their second try", func() bool { _, done := y.count(); return done == 5 })
				eventually(t, "all is committed", func() bool { return s.committed() == 5 })
			})
		}
	})
	t.Run("refused", func(t *testing.T) {
		for name, test := range refused {
			t.Run(name, func(t *testing.T) {
				s := fresh(t)
				app, b := logged(orders(newTally().handler(failsOnce)))
				r := s.start(app, settings{"KAFKA_BROKERS": s.seeds}.with(test.env))
				r.notReady(test.says...)
				_, _, text := r.health()
				for _, secret := range []string{wrong, testbroker.KafkaPassword, ":guest@"} {
					if strings.Contains(text+b.String(), secret) {
						t.Errorf("the secret %q is shown:\n%s\n%s", secret, text, b)
					}
				}
				r.end()
			})
		}
	})
}
