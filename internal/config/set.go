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
		dot := strings.LastIndexByte(rest, '.')
		if dot < 0 {
			return &Error{Key: show(key), Cause: "not a key of a port", Remedy: "for example ports." + rest + ".quota"}
		}
		p := c.port(rest[:dot])
		if p == nil {
			return &Error{Key: show(key), Cause: fmt.Sprintf("no port %s", show(rest[:dot])), Remedy: "name it under ports, or with --port"}
		}
		path, fields = rest[dot+1:], p.fields()
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
	if parentPath(path) == feedbackPath {
		// A mark says that feedback is wanted.
		c.Poller.Feedback.Off = false
	}
	delete(c.places, key)
	return nil
}

// parentPath is the section a key is in; empty at the top.
func parentPath(path string) string {
	return path[:max(strings.LastIndexByte(path, '.'), 0)]
}
