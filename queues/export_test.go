package queues

import "time"

// For the tests of package queues_test.
var MapsRings = mapsRings

// NewProbe returns the two methods of a probe.
func NewProbe(ifindex, queue int) (wait func(time.Duration) error, close func() error, err error) {
	p, err := newProbe(ifindex, queue)
	if err != nil {
		return nil, nil, err
	}
	return p.wait, p.close, nil
}

// SetCloseLinger changes how long Close waits for completions, and returns a function
// that restores it.
func SetCloseLinger(d time.Duration) (restore func()) {
	before := closeLinger
	closeLinger = d
	return func() { closeLinger = before }
}

// StartAt moves the indices of an empty queue.
func (q *Queue[T]) StartAt(i uint32) {
	q.pushed.Store(i)
	q.popped.Store(i)
	q.seen, q.known = i, i
}
