package config

import (
	"fmt"
	"strings"
)

// Set takes one assignment such as `poller.cpu_share.limit=50%` or `ports.in0.quota=32`; the port must be there already. It overrides
// the file and any earlier Set. The error is an [Error], and c is then as it was.
func (c *Config) Set(assignment string) error {
	key, text, ok := strings.Cut(assignment, "=")
	if !ok {
		return &Error{Key: show(assignment), Cause: "not of the form key=value", Remedy: "for example poller.quota=32"}
	}
	path, fields := key, c.fields()
	if rest, isPort := strings.CutPrefix(key, "ports."); isPort {
		name, below := c.cutPort(rest)
		if below == "" {
			return &Error{Key: show(key), Cause: "not a key of a port", Remedy: "for example ports." + rest + ".quota"}
		}
		p := c.port(name)
		if p == nil {
			return &Error{Key: show(key), Cause: fmt.Sprintf("no port %s", show(name)), Remedy: "name it under ports, or with --port"}
		}
		path, fields = below, p.fields()
	}
	f, leaf := find(fields, path)
	switch {
	case leaf:
	case key == "ports":
		return &Error{Key: key, Cause: "a list", Remedy: "set the keys of one port, such as ports.eth1.quota"}
	case isSection(fields, path):
		return &Error{Key: key, Cause: "holds " + strings.Join(children(fields, path), ", "), Remedy: "set one of them"}
	default:
		section := parentPath(path)
		for section != "" && !isSection(fields, section) {
			section = parentPath(section)
		}
		known := "known here are " + strings.Join(children(fields, section), ", ")
		return &Error{Key: show(key), Cause: "unknown key", Remedy: known}
	}
	if err := f.parse(text); err != nil {
		return &Error{Key: key, Value: show(text), Cause: err.Error()}
	}
	if above, ok := switchOf(fields, path); ok {
		// A mark says that feedback is wanted.
		if err := above.parse("on"); err != nil {
			return &Error{Key: key, Cause: err.Error()}
		}
	}
	delete(c.places, key)
	return nil
}

// cutPort splits NAME.KEY, both of which may hold dots, into the two: where a key of a port begins, else behind the name of a port, else
// at the last dot. The key is empty if there is none.
func (c *Config) cutPort(s string) (name, key string) {
	for _, f := range (&Port{}).fields() {
		// No key of a port ends in a dot and another one, so at most one fits.
		if name, ok := strings.CutSuffix(s, "."+f.path); ok {
			return name, f.path
		}
	}
	for _, p := range c.Ports {
		if rest, ok := strings.CutPrefix(s, p.Name+"."); ok && len(p.Name) > len(name) {
			name, key = p.Name, rest
		}
	}
	if key != "" {
		return name, key
	}
	dot := strings.LastIndexByte(s, '.')
	if dot < 0 {
		return s, ""
	}
	return s[:dot], s[dot+1:]
}
