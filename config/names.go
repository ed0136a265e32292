package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// names are all variables and settings there are. They follow from the stream-ids, so the list is
// finite.
type names struct {
	prefix   string            // before every variable
	paths    map[string]string // by variable, prefix included
	secrets  map[string]bool   // by path
	sections map[string]bool   // paths that only hold others
	streams  []string          // the last parts of streams' variables, say RETRY_COUNT
	owners   map[string]string // by variable: whose setting it is
}

// variable is the name of the setting's variable, as a person has to write it.
func (n names) variable(path string) string { return n.prefix + variable(path) }

// known says whether a path is that of a setting, not of a section.
func (n names) known(path string) bool {
	_, known := n.secrets[path]
	return known
}

// variables are all variables, sorted.
func (n names) variables() []string { return slices.Sorted(maps.Keys(n.paths)) }

// readable are all variables that are read, those that name a file included.
func (n names) readable() []string {
	all := append(n.variables(), n.prefix+fileVariable)
	for name, path := range n.paths {
		if n.secrets[path] {
			all = append(all, name+"_FILE")
		}
	}
	slices.Sort(all)
	return all
}

// settings are the paths of all settings and sections, sorted.
func (n names) settings() []string {
	all := slices.AppendSeq(slices.Collect(maps.Keys(n.sections)), maps.Keys(n.secrets))
	slices.Sort(all)
	return all
}

// fileVariable names the file of settings, without the prefix. It is no setting itself.
const fileVariable = "CONFIG_FILE"

// name finds out all names. Streams and channels whose variables would be the same are a mistake,
// as stream a_channels_b beside channel b of stream a.
func (l *loader) name() {
	l.names = names{
		prefix: l.source.EnvPrefix, paths: map[string]string{}, secrets: map[string]bool{},
		sections: map[string]bool{"app": true, "streams": true}, owners: map[string]string{},
	}
	for _, f := range fields(reflect.ValueOf(l.cfg).Elem(), "") {
		l.add(f, "the actor")
	}
	for _, f := range fields(reflect.ValueOf(&l.cfg.Defaults).Elem(), "") {
		l.names.streams = append(l.names.streams, variable(f.path))
		if !f.onlyStreams() {
			l.add(f, "the actor")
		}
	}
	for _, id := range l.source.ids() {
		l.addAll(fields(reflect.ValueOf(&Stream{}).Elem(), "streams."+id), fmt.Sprintf("stream %q", id))
		for _, channel := range l.source.channelNames(id) {
			l.addAll(fields(reflect.ValueOf(&Channel{}).Elem(), channelPath(id, channel)), fmt.Sprintf("channel %q of stream %q", channel, id))
		}
	}
}

// addAll adds the settings of a stream or channel.
func (l *loader) addAll(all []field, owner string) {
	told := map[string]bool{}
	for _, f := range all {
		if other := l.add(f, owner); other != "" && !told[other] {
			told[other] = true
			l.complain("%s and %s would both be set by %s: rename one of them", other, owner, l.names.variable(f.path))
		}
	}
}

// add makes a setting known, with the sections above it. It returns who has its variable already;
// empty: nobody has.
func (l *loader) add(f field, owner string) (other string) {
	name := l.names.variable(f.path)
	if other = l.names.owners[name]; other == "" {
		l.names.paths[name], l.names.owners[name] = f.path, owner
	}
	l.names.secrets[f.path] = f.secret()
	// Each dot ends the path of a section.
	for i, c := range f.path {
		if c == '.' {
			l.names.sections[f.path[:i]] = true
		}
	}
	return other
}
