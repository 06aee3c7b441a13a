// Package engine forwards packets between ports: workers that run the scheduler on real rings, the forwarding decision, and the
// counters under which every packet ends exactly once.
//
//	             worker (one thread, one CPU, its own UMEM)
//	            ┌──────────────────────────────────────────────────────────────────────┐
//	 port A ───►│ source: RX ring ─► forward ─► egress: backlog ─► TX ring ─► Completion │───► port B
//	  door      │    ▲                 │drop               ▲ one downstream queue ▲       │
//	(xdpprog)   │   Fill ◄──── free frames ◄───────────────┴───── frames ─────────┘       │
//	            └──────────────────────────────────────────────────────────────────────┘
//	                 poller.Scheduler decides whose turn it is and how long it lasts; driver.go gives it thread, clock and sleep.
//
// The decision (forward.go) is a pure function of the frame and an immutable snapshot of the kernel's tables (package fib). Worker w
// serves the receive queues q with q mod workers = w on every port and transmits on queue w of every port, so no ring has two users
// and the path of a packet takes no lock.
//
// Balance, per weir and at any moment (see [Totals]):
//
//	offered = delivered + passed to the kernel + Σ drops by reason + in flight
package engine
