package config

import "strings"

// ofTopics are settings that say what is read from Kafka, and how.
func ofTopics() []string {
	return []string{"topics", "topic_pattern", "group", "start", "max_age", "window_messages", "window_span", "fetchers", "order"}
}

// HasTopics says whether the stream's messages come from Kafka. Routing keys alone are meant for an
// exchange: that it is missing is the mistake, and no topic is.
func (c *Config) HasTopics(id string) bool {
	s := c.Streams[id]
	keysAlone := len(s.RoutingKeys) > 0 && len(s.Topics) == 0 && s.TopicPattern == ""
	return !c.enqueued[id] && c.SourceQueue(id) == "" && !keysAlone
}

// BoundQueue is the queue that the stream has where it has an exchange.
func (c *Config) BoundQueue(id string) string { return c.App.Name + "." + id + ".source" }

// SourceQueue is the queue of RabbitMQ that the stream's messages come from: somebody else's, or
// one of its own that is bound to an exchange; empty: they come from elsewhere.
func (c *Config) SourceQueue(id string) string {
	switch s := c.Streams[id]; {
	case s.Queue != "":
		return s.Queue
	case s.Exchange != "":
		return c.BoundQueue(id)
	}
	return ""
}

// Consumes says whether this process consumes the stream's queue.
func (c *Config) Consumes(id string) bool {
	return c.SourceQueue(id) != "" && c.Runs(ModeStreams) && !c.Streams[id].Retired
}

// queued checks a stream whose messages begin in RabbitMQ: what is shared by all streams and says
// how Kafka is read does nothing here, and what is set for this stream alone is a mistake.
func (v *checker) queued(id, at string, s *Stream) {
	v.check(len(s.RoutingKeys) == 0 || s.Exchange != "", at+"routing_keys", "is for a stream with an exchange, and %s is not set", v.names.variable(at+"exchange"))
	if v.cfg.HasTopics(id) {
		return
	}
	has := "what is enqueued"
	switch {
	case s.Queue != "":
		has = "what is in queue " + s.Queue
		v.queue(id, at, s.Queue)
	case s.Exchange != "":
		has = "what is published to exchange " + s.Exchange
	case len(s.RoutingKeys) > 0:
		has = "what is published to an exchange"
	}
	if s.Exchange != "" {
		v.exchange(id, at, s)
	}
	for _, key := range ofTopics() {
		if v.cfg.setting(at + key).isOwn() {
			v.refuse(at+key, "is for streams that read Kafka: this one has %s, and nothing else", has)
		}
	}
	v.check(*s.Retry.Enabled, at+"retry.enabled", "cannot be for a stream that has %s: its messages wait in RabbitMQ, and so do its failures: %s=true sets it for this stream alone",
		has, v.names.variable(at+"retry.enabled"))
	// On with the value that it must have, so that the checks that follow complain of nothing that
	// comes from this mistake.
	s.Retry.Enabled = new(true)
	inPlace := v.cfg.setting(at + "retry.in_place")
	if s.Retry.InPlace != "0" && inPlace.isOwn() {
		v.refuse(at+"retry.in_place", "is for streams that read Kafka: RabbitMQ does not wait for as long as a message may rest in place")
	}
	s.Retry.InPlace, inPlace.value = "0", "0"
}

// exchange checks the exchange of a stream whose queue is bound to one.
func (v *checker) exchange(id, at string, s *Stream) {
	const longest = 255 // bytes, of a name and of a key in AMQP
	v.check(s.Queue == "", at+"exchange", "cannot be beside %s: a stream has the one or the other", v.names.variable(at+"queue"))
	v.check(!v.cfg.enqueued[id], at+"exchange", "is for streams that are not Enqueued: those have a queue of their own")
	v.check(strings.TrimSpace(s.Exchange) != "", at+"exchange", "has only blanks, and must be the name of an exchange")
	v.check(len(s.Exchange) <= longest, at+"exchange", "is longer than %d bytes", longest)
	v.check(len(s.RoutingKeys) > 0 || s.Queue != "", at+"routing_keys", "is required beside an exchange: # has all that comes to a topic exchange, or to a fanout one")
	for _, key := range s.RoutingKeys {
		v.check(len(key) <= longest, at+"routing_keys", "has a key that is longer than %d bytes", longest)
	}
}

// queue checks the queue of a stream that consumes one.
func (v *checker) queue(id, at, name string) {
	const longest = 255 // bytes, of a name in AMQP
	v.check(!v.cfg.enqueued[id], at+"queue", "is for streams that are not Enqueued: those have a queue of their own")
	v.check(strings.TrimSpace(name) != "", at+"queue", "has only blanks, and must be the name of a queue")
	v.check(len(name) <= longest, at+"queue", "is longer than %d bytes", longest)
	v.check(!strings.HasPrefix(name, v.cfg.App.Name+"."), at+"queue", "begins with %s., as the queues that are ours: their messages have a form of their own", v.cfg.App.Name)
	for other, s := range v.cfg.Streams {
		v.check(other >= id || s.Queue != name, at+"queue", "is the queue of stream %q too: each message would come to one of them", other)
	}
}
