// Package ringtest plays the kernel's half of AF_XDP on plain memory, so that code
// above package queues runs without privilege, under the race detector, and through
// the events a real kernel shows once a month.
//
//	kernel := ringtest.New(ringtest.Config{})
//	umem, _ := queues.NewUMEM(queues.UMEMConfig{NumFrames: 64, FrameSize: 2048, Kernel: kernel})
//	socket, _ := umem.Open(queues.SocketConfig{Ifindex: 1, ...})
//	port := kernel.Port(socket)
//
//	port.Inject(frame)         // a packet arrives: Fill → RX
//	...                        // the code under test receives, sends, kicks
//	sent := port.Transmitted() // what left through TX
//
// The script side ([Kernel] and [Port] methods) may be called from any goroutine,
// also while the code under test runs in another. System calls of the code under
// test run on its own goroutine, as they do in a real kernel in copy mode.
//
// The scripted kernel obeys the rules of net/xdp (Linux 6.18) where they matter:
// what a bind may ask for, which descriptors are skipped, what is dropped under
// which counter, 32 packets per Kick without a budget, one packet dropped and
// completed per EBUSY. And it keeps books of its own: [Kernel.Audit] says whether a
// frame was ever lent to it twice.
package ringtest
