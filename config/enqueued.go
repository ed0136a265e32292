package config

// ofTopics are settings that say what is read from Kafka, and how.
func ofTopics() []string {
	return []string{"topics", "topic_pattern", "group", "start", "max_age", "window_messages", "window_bytes", "window_span", "fetchers", "order"}
}

// hasTopics says whether the stream's messages come from Kafka.
func (c *Config) hasTopics(id string) bool { return !c.enqueued[id] }

// enqueued checks a stream whose messages come from the program itself. They begin in RabbitMQ:
// what is shared by all streams and says how Kafka is read does nothing here, and what is set for
// this stream alone is a mistake.
func (v *checker) enqueued(id, at string, s *Stream) {
	if v.cfg.hasTopics(id) {
		return
	}
	for _, key := range ofTopics() {
		if v.cfg.setting(at + key).isOwn() {
			v.refuse(at+key, "is for streams that read Kafka: this one has what is enqueued, and nothing else")
		}
	}
	v.check(*s.Retry.Enabled, at+"retry.enabled", "cannot be for a stream that is Enqueued, whose messages wait in RabbitMQ, and so do its failures: %s=true sets it for this stream alone",
		v.names.variable(at+"retry.enabled"))
	// On with the value that it must have, so that the checks that follow complain of nothing that
	// comes from this mistake.
	s.Retry.Enabled = new(true)
	inPlace := v.cfg.setting(at + "retry.in_place")
	if s.Retry.InPlace != "0" && inPlace.isOwn() {
		v.refuse(at+"retry.in_place", "is for streams that read Kafka: RabbitMQ does not wait for as long as a message may rest in place")
	}
	s.Retry.InPlace, inPlace.value = "0", "0"
}
