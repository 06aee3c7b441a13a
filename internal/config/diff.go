package config

// Change is one key whose value in force differs between two configurations.
type Change struct {
	// Key is the key's path as Set takes it, or ports.NAME for a port that came or went.
	Key string
	// Old and New are the values as the file writes them; empty where the port is absent.
	Old, New string
	// Live says that a running weir can take the new value; if not, it needs a restart.
	Live bool
}

// Diff lists what differs from old to new, in the order Effective prints it. Values in force are compared: a port that inherits its
// quota, feedback or backlog changes with what it inherits. The order of ports has no meaning and is no change.
func Diff(old, new *Config) []Change {
	a, b := old.resolved(), new.resolved()
	var changes []Change
	for i := range b.Ports {
		p := &b.Ports[i]
		was := a.port(p.Name)
		if was == nil {
			changes = append(changes, Change{Key: portPath(p.Name), New: p.Name, Live: restart})
			continue
		}
		changes = appendChanges(changes, portPath(p.Name)+".", was.fields(), p.fields())
	}
	for _, p := range a.Ports {
		if b.port(p.Name) == nil {
			changes = append(changes, Change{Key: portPath(p.Name), Old: p.Name, Live: restart})
		}
	}
	return appendChanges(changes, "", a.fields(), b.fields())
}

// appendChanges compares two lists of the same fields.
func appendChanges(changes []Change, prefix string, old, new []field) []Change {
	for i, f := range new {
		was, is := old[i].String(), f.String()
		// Marks have no effect while feedback is off, and those of a file that says off are not its author's.
		if isOff(old, f.path) || isOff(new, f.path) {
			continue
		}
		if was != is {
			changes = append(changes, Change{Key: prefix + f.path, Old: was, New: is, Live: f.live})
		}
	}
	return changes
}
