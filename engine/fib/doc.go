// Package fib follows the kernel's links, addresses, neighbours and routes and answers two questions about each packet: where does
// it go, and what is the hardware address there.
//
//	kernel (the authority)                     one goroutine                              any goroutine, no lock
//	┌──────────────────────┐  updates   ┌───────────────────────────┐   Snapshot    ┌─────────────────────────┐
//	│ routes  main, local  ├───────────►│ state.apply(update)       ├──────────────►│ Lookup(dst) *Route      │
//	│ neighbours           │  overrun:  │  every candidate route,   │ atomic swap   │ Neighbour(port, dst)    │
//	│ links, addresses     │  dump      │  the best one per prefix  │ of a pointer  │ Port(i), Locals()       │
//	│ policy rules         ├───────────►│  in the lookup tables     │               └─────────────────────────┘
//	└──────────▲───────────┘            └─────────────┬─────────────┘
//	           │ RTM_NEWNEIGH NTF_USE                 │ one atomic word per neighbour
//	        Resolve                                   └──────────────────────────────►  Neighbour.MAC()
//
// # What changes how
//
// A Snapshot never changes: a route that comes or goes makes a new one. The MAC of a neighbour does not go through snapshots: all
// of them share one cell per neighbour, so the very next packet uses a new MAC. Nothing else in a Snapshot is shared with the writer.
//
// Updates are published when no more wait in the socket, in a burst every 5 ms. Reading everything again, after notifications were
// lost, is published when it is complete; until then the last snapshot stays in force.
//
// Routes lie in bart's persistent tries. IPv6 is looked up there; for IPv4 a flat index (index4) is made from the trie, several times as
// fast. Of each route of the kernel itself the state keeps 16 bytes (rib) and a hop that all routes with the same next hop share.
//
// # What is exact, and what is refused
//
// The kernel consults table local, then main; Lookup does both in one step. Per prefix the candidate with the lowest metric wins,
// dead next hops are passed over. What is not supported yet (several next hops, next hop objects, encapsulation, source prefixes, a
// type of service) makes its prefix Unsupported with a reason: never a wrong forward, never a longer way round to a less specific
// route. Policy rules are listed by ForeignRules; while there are any, this package does not know what the kernel would do.
//
// The kernel drops routes in silence: IPv4 routes when their link goes down, their preferred source address is removed or their next
// hop object is deleted. Such events make the routes be read again.
package fib
