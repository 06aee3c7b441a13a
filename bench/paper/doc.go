// Package paper holds weir's scheduler against the paper it comes from: a model
// in virtual time of the router measured in Mogul and Ramakrishnan,
// "Eliminating Receive Livelock in an Interrupt-Driven Kernel" (USENIX 1996),
// driven by the very same package poller that forwards packets in production,
// and compared with 539 points read off the paper's figures.
//
//	source ──▶ receiver ──▶ ┌─────────────── kernel ────────────────┐ ──▶ transmitter ──▶ wire
//	           ring of 32   │ unmodified: interrupts do the         │     queue of 50,
//	           drops when   │   driver's work, a thread forwards    │     ring of 8
//	           full         │ polling: interrupts wake a thread,    │
//	                        │   the thread is poller.Scheduler      │
//	                        └──────────┬────────────────▲───────────┘
//	                                   ▼ queue of 32    │
//	                               userland: screen, compute, daemons
//
//	CPU: clock > device interrupts > kernel threads, system calls > user mode
//
// There is one CPU and one clock. Whatever uses the CPU calls machine.spend
// with its cost and its level; everything above that level happens inside the
// call and takes its own time. So a kernel thread is plain Go code, and
// poller's callbacks are interrupted in the middle like everything else.
//
// One set of constants (Testbed) serves all 18 independent curves. Those listed
// in calibrate.txt were used to fit it, the others are predicted. Every
// comparison is printed with its limit, misses included, and so is what each
// constant is worth (Sensitivity), and that the model fails when it must
// (Control).
//
// Nothing here needs privilege, a clock or a network.
package paper
