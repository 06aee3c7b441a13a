// Package control is how a running weir is seen and asked: a Unix socket for its owner, and a read-only HTTP listener for everyone else.
//
//	weir stats ──┐
//	weir reload ─┴▶ Client ─▶ /run/weir/<netns inode>.sock ─▶ Server ─▶ Options.Stats, Options.Reload
//	                          mode 0600; the right to open it
//	                          is the right to use it
//
//	Prometheus, health checks, a browser ─▶ metrics.listen ─▶ Server ─▶ Options.Collector, Options.Health
//	                                        GET and HEAD only
//
// Both speak HTTP; answers on the socket are JSON. Limits on time, size and number of connections hold on both, so that nobody who
// may connect can keep weir's memory or file descriptors. The package knows nothing of engine or configuration: it is given functions.
package control
