package config

import (
	"maps"
	"reflect"
	"slices"
	"time"
)

// Channel is the settings of one channel of a stream. What it does not have of its own is the
// stream's, but that it always retries through RabbitMQ.
type Channel struct {
	HandlerTimeout time.Duration `key:"handler_timeout"`
	HandlerCopy    bool          `key:"handler_copy"`
	Concurrency    int           `key:"concurrency"`
	CrashLimit     *int          `key:"crash_limit"`
	CrashProbation time.Duration `key:"crash_probation"`
	Retry          Retry         `key:"retry"`
}

// Of returns the settings of a channel in the form of a stream's, with those of the stream that
// concern both. Those that say what is read from Kafka mean nothing for a channel.
func (s Stream) Of(channel string) Stream {
	c := s.Channels[channel]
	s.HandlerTimeout, s.HandlerCopy, s.Concurrency = c.HandlerTimeout, c.HandlerCopy, c.Concurrency
	s.CrashLimit, s.CrashProbation, s.Retry = c.CrashLimit, c.CrashProbation, c.Retry
	s.OnFailure, s.Channels = "retry", nil
	return s
}

// channelNames are the names of a stream's channels that the code registers, sorted.
func (s Source) channelNames(id string) []string {
	return slices.Sorted(maps.Keys(s.Streams[id].Channels))
}

// channelPath is where the settings of a channel stand among all.
func channelPath(id, channel string) string { return "streams." + id + ".channels." + channel }

// ofEachChannel are settings that a channel does not take over from its stream.
func ofEachChannel(key string) bool { return key == "retry.enabled" || key == "retry.in_place" }

// fillChannel gives every setting of a channel its value: its own, in file and environment, before
// those of its stream and of all streams there; then that in its code, that of its stream's code,
// and the default.
func (l *loader) fillChannel(id, channel string) Channel {
	c, code, ofStream := Channel{}, l.source.Streams[id].Channels[channel], l.source.Streams[id]
	below := map[string]field{}
	for _, f := range fields(reflect.ValueOf(&ofStream).Elem(), "") {
		below[f.path] = f
	}
	inCode := fields(reflect.ValueOf(&code).Elem(), "")
	for i, f := range fields(reflect.ValueOf(&c).Elem(), channelPath(id, channel)) {
		key := inCode[i].path
		// The default and the unit are those of the stream's setting of that name.
		f.tag = below[key].tag
		if ofEachChannel(key) {
			l.settle(f, inCode[i].value, f.path)
			continue
		}
		at, value := f.path, inCode[i].value
		if value.IsZero() {
			at, value = "streams."+id+"."+key, below[key].value
		}
		l.settle(f, value, f.path, "streams."+id+"."+key, key)
		if s := l.cfg.setting(f.path); s.origin == "code" {
			// A value of the code is complained about where the code has it: at the stream or at
			// the channel.
			s.found = at
		}
	}
	return c
}

// channels checks those of a stream.
func (v *checker) channels(id string, s *Stream) {
	for _, name := range v.source.channelNames(id) {
		at := channelPath(id, name) + "."
		if !validID(name) {
			v.complain("channel %s of stream %s: a name must be of a-z, 0-9, - and _, at most %d of them, and begin with a letter or digit", quote(name), quote(id), maxID)
		}
		c := s.Channels[name]
		v.check(*c.Retry.Enabled, at+"retry.enabled", "cannot be: what a channel is handed over waits in RabbitMQ, and so do its failures")
		// On with the value that it must have, so that the checks below complain of nothing that
		// follows from this mistake.
		c.Retry.Enabled = new(true)
		v.check(c.Retry.InPlace == "0", at+"retry.in_place",
			"cannot be: what a channel is handed over comes from RabbitMQ, which does not wait for as long as a message may rest in place")
		c.Retry.InPlace = "0"
		s.Channels[name] = c
		of := s.Of(name)
		v.handler(at, &of, v.cfg.HasOnDead(id, name))
		c.Retry = of.Retry
		s.Channels[name] = c
		v.durations(fields(reflect.ValueOf(&c).Elem(), channelPath(id, name)))
	}
}
