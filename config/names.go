package config

import (
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
}

func (n names) variable(path string) string { return n.prefix + variable(path) }

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

// name finds out all names. Two streams whose variables would be the same are a mistake.
func (l *loader) name() {
	l.names = names{
		prefix: l.source.EnvPrefix, paths: map[string]string{}, secrets: map[string]bool{},
		sections: map[string]bool{"app": true, "streams": true},
	}
	for _, f := range fields(reflect.ValueOf(l.cfg).Elem(), "") {
		l.add(f)
	}
	for _, f := range fields(reflect.ValueOf(&l.cfg.Defaults).Elem(), "") {
		l.names.streams = append(l.names.streams, variable(f.path))
		if !f.onlyStreams() {
			l.add(f)
		}
	}
	owners := map[string]string{} // streams by their variables' common beginning
	for _, id := range l.ids {
		if other, taken := owners[variable(id)]; taken {
			l.complain("streams %q and %q would both be set by %s: rename a stream", other, id, l.names.variable("streams."+id+".topics"))
		}
		owners[variable(id)] = id
		for _, f := range fields(reflect.ValueOf(&Stream{}).Elem(), "streams."+id) {
			l.add(f)
		}
	}
}

// add makes a setting known, with the sections above it.
func (l *loader) add(f field) {
	l.names.paths[l.names.variable(f.path)], l.names.secrets[f.path] = f.path, f.secret()
	for i, c := range f.path {
		if c == '.' {
			l.names.sections[f.path[:i]] = true
		}
	}
}
