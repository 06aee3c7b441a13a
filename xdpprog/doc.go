// Package xdpprog is the door of weir: the BPF programs, what attaches them, and the memory they share with the workers.
//
// The receive program decides about a frame before any work goes into it, cheapest question first:
//
//	      frame from the wire
//	              │
//	┌─────────────▼──────────────┐  other MAC, not IP, ARP/ND, multicast,    ┌──────────┐ room   kernel  (XDP_PASS)
//	│ 1. does it belong to the   ├──broadcast, local address ───────────────▶│ the      ├──────▶ Passed[class]
//	│    kernel?                 │                                           │ class's  │ full
//	└─────────────┬──────────────┘            ┌────── no socket ────────────▶│ limit    ├──────▶ dropped
//	              │ no: to be forwarded       │                              └──────────┘        Limited[class]
//	┌─────────────▼──────────────┐            │
//	│ 2. is a lesson asked for?  ├────────────┼─ once per request ──────────▶ kernel (XDP_PASS), as a datagram to the worker: Lessons
//	└─────────────┬──────────────┘            │
//	              │ no                        │
//	┌─────────────▼──────────────┐ gate       │
//	│ 3. is the door open?       ├────────────┼─────────────────────────────────────────────▶ dropped, DroppedGate[reason]
//	│    SetShut, Learn          ├────────────┼─────────────────────────────────────────────▶ dropped, DroppedEgress
//	│    MaxLen                  ├────────────┼─────────────────────────────────────────────▶ dropped, DroppedTooLong
//	│    SetGate, Grant          ├────────────┼─────────────────────────────────────────────▶ dropped, DroppedNoCredit
//	└─────────────┬──────────────┘ no credit  │
//	              │ yes                       │
//	┌─────────────▼──────────────┐            │
//	│ 4. the queue's socket      ├────────────┘
//	└─────────────┬──────────────┘
//	              ▼
//	      AF_XDP socket (XDP_REDIRECT), Redirected
//
// Every frame ends under exactly one counter ([Counters]). A [Port] is one interface with the program attached; a [Door] is one receive
// queue's gate, credits and counters, in memory mapped from a BPF map: what a worker stores there is in force for the next frame, without
// a system call. The door closes by itself: once the credits are spent, it lets nothing in, whether or not the worker is running.
//
// Congestion behind one egress keeps out only what goes there: the worker tells the door which egress a destination has led to
// ([Door.Learn]), and which egresses are congested ([Door.SetShut]).
//
// The door also tells where the receive work is done, on the worker's CPU or elsewhere, driven by the worker or not ([Door.Seen]), and
// gives the worker's socket the NAPI it belongs to ([Door.Teach]).
//
// The program looks at the Ethernet header and the destination address only. Malformed IP packets are forwarded to the engine, which
// drops them by reason; so is an IP frame too short to hold a destination. Tagged frames (802.1Q, 802.1ad) go to the kernel, whatever
// they hold.
//
// The package also holds the overload lab's two ends: a [Generator] that sends from inside the kernel, and a [Sink] that counts and
// drops.
//
// The programs are C in bpf/, under GPL-2.0-only OR BSD-2-Clause, compiled by clang 14 and committed as objects; a test compiles them
// again and compares. They need Linux 5.18 (xdp.frags), tags beside the frame 6.8, the tcx sink 6.6. Little-endian machines only.
package xdpprog
