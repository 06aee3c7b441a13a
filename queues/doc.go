// Package queues is the memory of a forwarder: packet frames, the AF_XDP rings
// that lend them to the kernel, and bounded queues between stages.
//
// A [UMEM] is one mapping cut into frames of equal size. Every frame has exactly
// one owner at any moment, and every arrow below is one function that changes it:
//
//	             Alloc                Send
//	    ┌──────┐ ──────▶ ┌──────┐ ───────────▶ ┌──────────────────────────┐
//	    │ free │         │ held │              │ transmit                 │
//	    │stack │ ◀────── │      │              │ TX → kernel → Completion │
//	    └──────┘  Free   └──────┘              └──────────────────────────┘
//	     │    ▲              ▲                              │
//	     │    └───────────── │ ─────────── Reap ────────────┘
//	     │                   │ Receive
//	     │            ┌────────────────────┐
//	     └──────────▶ │ receive            │
//	        Refill    │ Fill → kernel → RX │
//	                  └────────────────────┘
//
//	free + held + receive + transmit + stranded = total, always.
//
// "Receive" is everything from Fill to RX, what the kernel has in its hands in
// between included; "transmit" is everything from TX to Completion. "Stranded"
// are frames of a socket whose device is gone; [Socket.Close] brings them back.
// Each frame carries an owner mark, so that a frame freed twice, or a descriptor
// the kernel should not have, is refused and counted and never corrupts another
// packet. [UMEM.Ledger] gives the sums, [UMEM.Audit] proves them frame by frame.
//
// A [Socket] is one AF_XDP socket on one queue of one interface. All sockets of a
// UMEM share its frames (XDP_SHARED_UMEM), so a packet moves between interfaces by
// handing over its descriptor; each has Fill and Completion rings of its own. The
// UMEM outlives any of its sockets.
//
// Concurrency: a UMEM and all its sockets belong to one goroutine. [Queue] joins
// two. Nothing on the packet path allocates, locks or reads a clock.
//
// The kernel is reached through [Kernel] and [Conn], which are crossed once per
// batch. Package ringtest implements them on plain memory.
package queues
