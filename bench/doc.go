// Package bench is the overload lab: a router between a generator and a sink on one machine, what is measured in it, and how.
//
//	CPU 0                    CPU 1
//	generator (BPF) ─► in0 ─► what is measured: weir, a plain AF_XDP loop, the kernel ─► out0 ─► sink (BPF, counts and drops)
//
// Offered is counted at the generator's device, delivered at the sink, both by the kernel and neither by what is measured. What is
// compared is measured in one run, in turns, and the medians are reported with their spread: the machine may be noisy, but it is noisy
// for all of them.
package bench
