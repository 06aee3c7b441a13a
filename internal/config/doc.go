// Package config is weir's configuration: one YAML file, command-line overrides in the same key paths, and their defaults.
//
//	weir.yaml ──Load, Parse──▶ Config ◀──Set── --set poller.cpu_share.limit=50%
//	                             │
//	                          Validate           what no key can know alone: no port, a name twice, crossed marks
//	                             │
//	               Effective   Diff(old, new)    every key spelled out; what changed, and whether it needs a restart
//
// Every key stands in one table, keys.go: its path, what reads and prints it, and whether a running weir can take a new value.
//
// A key path is the path of mappings in the file joined by dots: poller.cpu_share.limit. A port's keys are addressed by its name, not
// by its place in the list: ports.in0.quota. A name may itself hold dots, for what a port's key is, is known: ports.lan.7.feedback.high.
//
// Parsing is strict: an unknown key, a key given twice, a value of the wrong kind or out of range is an [Error] with file, line and
// column. Quotes around a value do not matter; anchors, aliases, tags and a second document are refused.
package config
