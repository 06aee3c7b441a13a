// Package config is weir's configuration: one YAML file, command-line overrides in the same key paths, and their defaults.
//
//	weir.yaml ──Load/Parse──▶ Config ◀──Set── --set poller.cpu_share.limit=50%
//	                            │
//	                        Validate            what one key cannot know alone: no port, crossed marks, a name twice
//	                            │
//	              Effective  Diff(old, new)     every key spelled out; what changed, and whether it needs a restart
//
// Every key stands once, in the table of keys.go: its path, how it is read, how it is printed, and whether a running weir can take a
// new value. Parsing is strict: an unknown key, a key given twice, a value of the wrong kind or out of range is an [Error] with file,
// line and column, and nothing is changed.
package config
