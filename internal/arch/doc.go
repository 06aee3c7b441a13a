// Package arch holds the test that the code keeps to its architecture. It has no code of its own.
//
//	cmd ─▶ bench ─▶ engine ─▶ poller  queues  xdpprog  internal/host  internal/napi
//	  └───────────────┴─────▶ internal/config  internal/control  internal/nettest
//
// The rooms on the right import no other room. The table in rules_test.go is the whole of it; besides arrows the test watches where
// unsafe is, that the scheduler has no clock, that every exported name is documented, and that files stay small.
package arch
