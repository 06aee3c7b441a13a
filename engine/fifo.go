package engine

import "weir/queues"

// fifo is a bounded first-in-first-out queue of descriptors, for one goroutine. Its positions run freely and are masked on use.
type fifo struct {
	slots       []queues.Desc
	first, next uint32
}

// newFIFO returns a queue of size slots, a power of two.
func newFIFO(size int) fifo { return fifo{slots: make([]queues.Desc, size)} }

func (f *fifo) len() int { return int(f.next - f.first) }

func (f *fifo) full() bool { return f.len() == len(f.slots) }

// push appends d to a queue that is not full.
func (f *fifo) push(d queues.Desc) {
	f.slots[f.next&uint32(len(f.slots)-1)] = d
	f.next++
}

// head returns the oldest descriptors, at most max and as many as lie in one piece; valid until the next push.
func (f *fifo) head(max int) []queues.Desc {
	at := int(f.first & uint32(len(f.slots)-1))
	n := min(max, f.len(), len(f.slots)-at)
	return f.slots[at : at+n]
}

// drop removes the n oldest descriptors.
func (f *fifo) drop(n int) { f.first += uint32(n) }
