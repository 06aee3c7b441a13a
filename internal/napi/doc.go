// Package napi is receive work: which NAPI instances a device has, who runs them, and the ways to run them oneself.
//
//	         interrupt ─▶ softirq ──┐
//	device ─▶ (masked)              ├─▶ NAPI id 8193, queue 0 ─▶ XDP program ─▶ AF_XDP ring
//	         timer ───▶ softirq ────┤
//	                                │   who polls:
//	         Socket.Drive ──────────┤   1  the worker, by preferred busy polling through a UDP socket that carries the id
//	         Uring.Drive ───────────┤   2  the worker, through an io_uring that was given the id
//	         kthread napi/in0-8193 ─┘   3  a kernel thread, ranked below the worker (Rank, SetThreadRank)
//
//	Client   List, Get                  ids, queues, interrupts, threads, settings
//	         SetMasking, SetThreaded    of one NAPI (Linux 6.13, 6.17)
//	Device   the same of a whole device, from sysfs, where the kernel is older
//	Journal  what was there before weir changed it, kept in a file: Replay puts it back after a crash
//
// Taking a queue is: Journal.Took, then Client.SetMasking with a timeout longer than the worker's longest sleep, then Drive; giving it back
// is SetMasking with what was there before, and one more Drive, since a packet may have come while the interrupt was masked.
//
// Sockets belong to the network namespace of the thread that opened them, and files to that of the thread that opens them: Dial,
// OpenSocket, OpenDevice and OpenJournal are called by a thread inside. Ids are of the whole machine, but a Client reaches only those
// of its own namespace. The package imports no other of weir's.
package napi
