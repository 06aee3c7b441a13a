package fib

import "sync/atomic"

// Neighbour is what the kernel knows of one next hop or on-link host on one port. The cell is shared by all snapshots and follows the
// kernel in place: it stays valid, and is never reused for another address, as long as anybody holds it.
type Neighbour struct {
	// word is written by the updating goroutine only and read by workers, one atomic access each:
	// bits 0..47 MAC, bit 48 usable, bit 49 stale.
	word atomic.Uint64
}

const (
	macMask  = 1<<48 - 1
	usable   = 1 << 48
	staleBit = 1 << 49
)

// MAC returns the hardware address as a number, its first byte on the wire in bits 47..40 and its last in bits 7..0, and whether it
// may be used: the kernel's state is PERMANENT, NOARP, REACHABLE, STALE, DELAY or PROBE. While ok is false ask Resolve. One atomic
// load; any goroutine.
func (n *Neighbour) MAC() (mac uint64, ok bool) {
	w := n.word.Load()
	return w & macMask, w&usable != 0
}

// Stale reports that the address may be used but the kernel has not verified it for a while. The kernel does so when it is told, by
// Resolve, that the neighbour is in use; a router that never says so goes on sending to a neighbour that is gone.
func (n *Neighbour) Stale() bool { return n.word.Load()&staleBit != 0 }
