package queues

import (
	"errors"
	"fmt"
	"sync/atomic"

	"golang.org/x/sys/cpu"
)

// ErrQueueShape is returned by NewQueue for a size or marks that cannot be.
var ErrQueueShape = errors.New("queue size or marks not possible")

// Queue is a bounded queue between two stages, one goroutine pushing and one
// popping. Its high and low marks are what feedback is made of: the stage in front
// stops when AboveHigh and goes on when BelowLow.
//
// Push and PushBatch belong to one goroutine, Pop and PopBatch to another; the other
// methods may be called by anybody. Nothing blocks or allocates.
type Queue[T any] struct {
	entries   []T // written by the pushing side in front of pushed, by the popping side behind it
	mask      uint32
	high, low int

	_      cpu.CacheLinePad
	pushed atomic.Uint32 // written by the pushing side: entries ever pushed, modulo 2^32
	seen   uint32        // the pushing side's copy of popped, read again only when the queue looks full

	_      cpu.CacheLinePad
	popped atomic.Uint32 // written by the popping side: entries ever popped, modulo 2^32
	known  uint32        // the popping side's copy of pushed, read again only when too little is known of

	_ cpu.CacheLinePad
}

// NewQueue returns an empty queue of size entries, a power of two, with its marks in
// entries: 0 <= low < high <= size.
func NewQueue[T any](size, high, low int) (*Queue[T], error) {
	if size <= 0 || size&(size-1) != 0 || uint64(size) > maxRing {
		return nil, fmt.Errorf("make queue of %d: %w: use a power of two", size, ErrQueueShape)
	}
	if low < 0 || low >= high || high > size {
		return nil, fmt.Errorf("make queue of %d: %w (high %d, low %d): use 0 <= low < high <= size", size, ErrQueueShape, high, low)
	}
	return &Queue[T]{entries: make([]T, size), mask: uint32(size - 1), high: high, low: low}, nil
}

// Push adds v and returns true, or returns false when the queue is full.
func (q *Queue[T]) Push(v T) bool {
	at := q.pushed.Load()
	if q.room(at, 1) == 0 {
		return false
	}
	q.entries[at&q.mask] = v
	q.pushed.Store(at + 1)
	return true
}

// PushBatch adds values from the front of v, as many as fit, and returns how many.
func (q *Queue[T]) PushBatch(v []T) int {
	at := q.pushed.Load()
	n := min(len(v), q.room(at, len(v)))
	for i := range n {
		q.entries[(at+uint32(i))&q.mask] = v[i]
	}
	q.pushed.Store(at + uint32(n))
	return n
}

// Pop takes the oldest value; ok is false when the queue is empty.
func (q *Queue[T]) Pop() (v T, ok bool) {
	at := q.popped.Load()
	if q.waiting(at, 1) == 0 {
		return v, false
	}
	v = q.take(at)
	q.popped.Store(at + 1)
	return v, true
}

// PopBatch moves the oldest values to dst, at most len(dst), and returns how many.
func (q *Queue[T]) PopBatch(dst []T) int {
	at := q.popped.Load()
	n := min(len(dst), q.waiting(at, len(dst)))
	for i := range n {
		dst[i] = q.take(at + uint32(i))
	}
	q.popped.Store(at + uint32(n))
	return n
}

// Len returns how many values are in the queue; for anybody but its two sides it is
// a value of a moment ago.
func (q *Queue[T]) Len() int {
	popped := q.popped.Load() // first: so that the difference cannot be negative
	return min(int(q.pushed.Load()-popped), len(q.entries))
}

// Cap returns how many values fit.
func (q *Queue[T]) Cap() int { return len(q.entries) }

// Full reports whether Push would fail.
func (q *Queue[T]) Full() bool { return q.Len() == len(q.entries) }

// AboveHigh reports whether the queue holds its high mark or more.
func (q *Queue[T]) AboveHigh() bool { return q.Len() >= q.high }

// BelowLow reports whether the queue holds its low mark or less.
func (q *Queue[T]) BelowLow() bool { return q.Len() <= q.low }

// room returns how many entries are free, at least n if that many are.
func (q *Queue[T]) room(at uint32, n int) int {
	free := len(q.entries) - int(at-q.seen)
	if free < n {
		q.seen = q.popped.Load()
		free = len(q.entries) - int(at-q.seen)
	}
	return free
}

// waiting returns how many entries can be popped, at least n if that many can.
func (q *Queue[T]) waiting(at uint32, n int) int {
	known := int(q.known - at)
	if known < n {
		q.known = q.pushed.Load()
		known = int(q.known - at)
	}
	return known
}

// take empties an entry, so that the queue keeps nothing alive that was popped.
func (q *Queue[T]) take(i uint32) T {
	var none T
	e := &q.entries[i&q.mask]
	v := *e
	*e = none
	return v
}
