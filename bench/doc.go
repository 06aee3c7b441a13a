// Package bench is the overload lab: a router between a generator and a sink on one machine, what is measured in it, and how.
//
//	CPU 0                    CPU 1
//	generator (BPF) ─► in0 ─► what is measured: weir, a plain AF_XDP loop, the kernel ─► out0 ─► sink (BPF, counts and drops)
//
// Offered is counted at the generator's device, delivered at the sink, both by the kernel and neither by what is measured. Where the
// receive work of in0 runs decides what overload is, so it is imposed on every device alike, from outside (Placement). What is compared is
// measured in one run, in turns, and the medians are reported with their spread: the machine may be noisy, but it is noisy for all of them.
// A trial in which others had a part of either CPU counts for nothing and is made again.
//
//	Overload  delivered over offered, from far below to far above what each bears; verdict: flat, falls, livelock
//	Latency   echoes through weir at a load it bears
//	Step      from overload to a load that is borne, millisecond by millisecond
//	Queues    one receive queue flooded: what the others lose
//
// The lab itself is pinned to the generator's CPU. A kernel thread that outranks everything on the other one can be demoted only from there.
package bench
