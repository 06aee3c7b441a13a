package xdpprog

import "fmt"

// Limit is how many frames of a class the door passes to the kernel: Rate per second, over all queues of the port, and up to Burst at
// once after a silence.
type Limit struct {
	Rate  uint64 // frames per second; 0 passes none
	Burst uint64 // frames
}

// MaxRate is the highest rate a [Limit] may have: the clock counts nanoseconds.
const MaxRate = 1e9

// maxBurst keeps Burst times the longest interval (1 s) within 64 bits of nanoseconds, with room to add a time of day.
const maxBurst = 1 << 32

// defaultBurst is the time a class's default burst lasts at its rate: 1/20 s, long enough for a routing daemon's greeting to all its
// neighbours, short enough that the host's backlog (1000 packets by default) is not much overrun by the smaller classes.
const defaultBurst = 20

// DefaultLimit returns the limit a class starts with: 200,000 frames per second for local addresses, 20,000 for every other class, and
// a twentieth of that as burst.
func DefaultLimit(c Class) Limit {
	rate := uint64(20_000)
	if c == ClassLocal {
		rate = 200_000
	}
	return Limit{Rate: rate, Burst: rate / defaultBurst}
}

// SetLimit changes the limit of a class and returns what was granted: the rate is kept as whole nanoseconds between frames, so a rate
// that does not divide 1e9 is granted a little higher. It takes effect with the next frame.
func (p *Port) SetLimit(c Class, l Limit) (Limit, error) {
	if int(c) >= NumClasses {
		return Limit{}, fmt.Errorf("limit of port %s: class %d: there are %d", p.name, c, NumClasses)
	}
	if l.Rate > MaxRate || l.Burst > maxBurst {
		return Limit{}, fmt.Errorf("limit of port %s class %s: rate %d, burst %d: at most %d and %d", p.name, c, l.Rate, l.Burst, uint64(MaxRate), uint64(maxBurst))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.shared.elems[0].buckets[c].set(l), nil
}

// set stores l and returns what it became.
func (b *bucketMemory) set(l Limit) Limit {
	interval, depth := uint64(1), uint64(0) // passes none: a frame is always further ahead than 0
	if l.Rate > 0 {
		interval = 1e9 / l.Rate
		depth = l.Burst * interval
		l.Rate = 1e9 / interval
	}
	b.interval.Store(interval)
	b.depth.Store(depth)
	return l
}
