// Package model asks where receive livelock would begin on today's machines, at
// rates this one cannot offer: up to 400 Gbit/s of small packets, over many
// cores and queues. It drives package poller in virtual time with costs
// measured on the running machine.
//
// Everything it prints is a model, and says so. What was measured, what was
// assumed and how they add up to the cost of a packet is printed with the
// result (Costs). One core is played and multiplied: packets are taken to
// spread evenly over the queues, memory and bus to keep up.
//
//	device ring ──▶ receive work ──▶ door ──▶ receive ring ──▶ worker ──▶ wire
//	 drops when     driver, program  drops     drops when       poller,
//	 full: free     (Receive)        (Door)    full: the whole  forward (Forward),
//	                                           Receive wasted   transmit (Transmit)
//
// Three ways to run it, on the same costs:
//
//	off    mechanisms off: receive work outranks the worker, as an interrupt or
//	       a real-time kernel thread does; a turn takes all that waits, no credits
//	door   the same rank, but the receive program drops what has no credit
//	owned  receive work runs only when the worker drives it
//
// Overload begins after a short calm, in which a worker that can owns its
// receive work. One that is outranked already could not: it would have to wait
// for the kernel's limit on real-time threads to let it run.
//
// package paper does the same for a machine whose behaviour was published.
package model
