package engine

// fillDepth is how many frames a source lends the kernel for receiving. It follows the load between two bounds: deep enough that the
// worker never waits for packets that the door refused for want of a frame, and no deeper, since every frame in circulation beyond that
// only evicts others from the cache.
//
//	too low:  the worker finds the ring empty while the door had no credit left     → twice as deep, at once
//	too high: for spareTurns turns in a row a quarter was neither used nor waited for → less by half of what was spare
type fillDepth struct {
	min, max int
	now      int
	spare    int // fewest spare frames of a turn since the depth changed
	turns    int // turns since the depth changed
}

// spareTurns is how many turns with packets it takes to call frames spare: at a turn of 64 packets, tens of milliseconds of a full load.
const spareTurns = 1024

func newFillDepth(min, max int) fillDepth {
	f := fillDepth{min: min, max: max}
	f.set(min)
	return f
}

// note looks at the end of a turn of at most limit packets: lent frames are in the kernel's hands, waiting ones of them hold packets
// already; refused says that packets were refused for want of a frame since the turn before. It reports whether the depth has changed.
func (f *fillDepth) note(refused bool, limit, waiting, lent int) bool {
	if refused && waiting == 0 {
		return f.set(2 * f.now)
	}
	empty := lent - waiting // those the kernel may still receive into
	f.spare = min(f.spare, max(0, empty-inTransit)+max(0, waiting-limit))
	f.turns++
	if f.turns < spareTurns {
		return false
	}
	if f.spare < f.now/4 {
		return f.set(f.now)
	}
	return f.set(f.now - f.spare/2)
}

// set begins a new count at a depth within the bounds and reports whether it is another one.
func (f *fillDepth) set(depth int) bool {
	depth = min(max(depth, f.min), f.max)
	changed := depth != f.now
	*f = fillDepth{min: f.min, max: f.max, now: depth, spare: f.max}
	return changed
}
