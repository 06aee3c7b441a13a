// Package nettest builds network namespaces, the cables between them and the packets on those cables. Tests, the demo and the lab
// stand on it; it needs no iproute2 at run time and does not import testing.
//
//	NewNS("src")                NewNS("rtr")                NewNS("dst")          /run/netns/weir-<pid>-<name>, seen by `ip netns`
//	┌─────────┐   Veth    ┌──────────────────┐   Veth    ┌─────────┐
//	│   s0 ───┼───────────┼─ r0    weir   r1 ┼───────────┼─── d0   │        T0 wires exactly this
//	└────┬────┘           └────────┬─────────┘           └────┬────┘
//	  OpenPacket                 Start                     Listen, Dial, Ping
//	  raw frames in and out      a process inside          sockets made inside
//
// Threads. A network namespace belongs to an operating system thread, and Go moves goroutines between threads. Two kinds of
// threads enter a namespace here, and neither comes back to Go's pool inside it:
//
//   - Do locks a thread, enters, calls the function, returns to the namespace it came from and unlocks. If it cannot return, the
//     thread stays locked and dies with its goroutine.
//   - Each NS that starts processes has one spawner thread: it enters the namespace and a mount namespace of its own with a fresh
//     /sys (sysfs shows the devices of the namespace that mounted it), forks every child, and dies in Close.
//
// A socket stays in the namespace it was made in, so it may be used by any goroutine afterwards.
//
// Names carry the process id. CleanDead removes what a killed process left behind; Main fails a test package that leaks.
package nettest
