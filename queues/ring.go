package queues

import (
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Ring is the memory of one ring as both of its sides see it. It has a single
// producer and a single consumer; which of them is the kernel depends on the ring.
//
// Both indices count entries since the beginning modulo 2^32 and are never masked
// in memory: equal means empty, a difference of len(Entries) means full. Go's
// atomics are sequentially consistent, which is stronger than the acquire and
// release the protocol needs, and is just what reading Flags after publishing an
// index needs (a store must not be passed by a later load).
type Ring[T any] struct {
	Producer *atomic.Uint32 // written by the producing side, read by the consuming side
	Consumer *atomic.Uint32 // written by the consuming side, read by the producing side
	Flags    *atomic.Uint32 // written by the kernel, read by us (XDP_RING_NEED_WAKEUP)
	Entries  []T            // written by the producing side between the two indices; a power of two
}

// Producer is the producing side of a ring. One goroutine uses it.
//
//	consumed        submitted        reserved        consumed+size
//	────┼───────────────┼────────────────┼─────────────────┼────
//	    │ other side's  │ being written  │      room       │
type Producer[T any] struct {
	ring      Ring[T]
	mask      uint32
	reserved  uint32 // ours alone: the next entry Reserve hands out
	submitted uint32 // ours: what we last stored to ring.Producer, so that we need not read it
	consumed  uint32 // our copy of ring.Consumer, which the other side writes: reading it moves a
	// cache line between CPUs, so it is read again only when the copy says there is no room
}

// NewProducer returns the producing side of r, empty or not, at whatever index it
// stands. len(r.Entries) must be a power of two.
func NewProducer[T any](r Ring[T]) Producer[T] {
	at := r.Producer.Load()
	return Producer[T]{
		ring:      r,
		mask:      uint32(len(r.Entries) - 1),
		reserved:  at,
		submitted: at,
		consumed:  r.Consumer.Load(),
	}
}

// Reserve takes up to n entries to write to and returns the index of the first and
// how many it got: fewer than n, or none, when the ring is that full. They must be
// given to Submit or Cancel.
func (p *Producer[T]) Reserve(n int) (first uint32, got int) {
	first = p.reserved
	room := p.room()
	if room < n {
		p.consumed = p.ring.Consumer.Load()
		if room = p.room(); room < n {
			n = room
		}
	}
	p.reserved += uint32(n)
	return first, n
}

// At returns the entry with index i, which must be reserved and not yet submitted.
func (p *Producer[T]) At(i uint32) *T { return &p.ring.Entries[i&p.mask] }

// Submit publishes the n oldest reserved entries: from here on they are the other
// side's. It writes the shared index once.
func (p *Producer[T]) Submit(n int) {
	if n == 0 {
		return
	}
	p.submitted += uint32(n)
	p.ring.Producer.Store(p.submitted)
}

// Cancel gives back the n newest reserved entries.
func (p *Producer[T]) Cancel(n int) { p.reserved -= uint32(n) }

// Room returns how many entries Reserve would give now.
func (p *Producer[T]) Room() int {
	p.consumed = p.ring.Consumer.Load()
	return p.room()
}

// Unconsumed returns how many submitted entries the other side has not taken.
func (p *Producer[T]) Unconsumed() int {
	p.consumed = p.ring.Consumer.Load()
	return int(p.submitted - p.consumed)
}

func (p *Producer[T]) room() int { return len(p.ring.Entries) - int(p.reserved-p.consumed) }

// Consumer is the consuming side of a ring. One goroutine uses it.
//
//	released          peeked          produced
//	────┼───────────────┼────────────────┼────
//	    │ being read    │    waiting     │
type Consumer[T any] struct {
	ring     Ring[T]
	mask     uint32
	peeked   uint32 // ours alone: the next entry Peek hands out
	released uint32 // ours: what we last stored to ring.Consumer, so that we need not read it
	produced uint32 // our copy of ring.Producer, which the other side writes: read again only
	// when the copy says that fewer entries wait than are asked for
}

// NewConsumer returns the consuming side of r, empty or not, at whatever index it
// stands. len(r.Entries) must be a power of two.
func NewConsumer[T any](r Ring[T]) Consumer[T] {
	at := r.Consumer.Load()
	return Consumer[T]{
		ring:     r,
		mask:     uint32(len(r.Entries) - 1),
		peeked:   at,
		released: at,
		produced: r.Producer.Load(),
	}
}

// Peek takes up to n entries to read and returns the index of the first and how
// many there are. They must be given to Release or Cancel.
func (c *Consumer[T]) Peek(n int) (first uint32, got int) {
	first = c.peeked
	waiting := int(c.produced - c.peeked)
	if waiting < n {
		c.produced = c.ring.Producer.Load()
		if waiting = int(c.produced - c.peeked); waiting < n {
			n = waiting
		}
	}
	c.peeked += uint32(n)
	return first, n
}

// At returns the entry with index i, which must be peeked and not yet released.
func (c *Consumer[T]) At(i uint32) T { return c.ring.Entries[i&c.mask] }

// Release gives the n oldest peeked entries back to the producing side, which may
// overwrite them at once. It writes the shared index once.
func (c *Consumer[T]) Release(n int) {
	if n == 0 {
		return
	}
	c.released += uint32(n)
	c.ring.Consumer.Store(c.released)
}

// Cancel puts the n newest peeked entries back, to be peeked again.
func (c *Consumer[T]) Cancel(n int) { c.peeked -= uint32(n) }

// Waiting returns how many entries Peek could give now.
func (c *Consumer[T]) Waiting() int {
	c.produced = c.ring.Producer.Load()
	return int(c.produced - c.peeked)
}

// NeedWakeup reports whether the kernel waits for a system call before it looks at
// the ring again. Ask after Submit.
func (p *Producer[T]) NeedWakeup() bool {
	return p.ring.Flags.Load()&unix.XDP_RING_NEED_WAKEUP != 0
}
