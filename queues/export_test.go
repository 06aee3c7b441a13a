package queues

// For the tests of package queues_test.
var (
	WaitReleased = waitReleased
	MapsRings    = mapsRings
)

// StartAt moves the indices of an empty queue.
func (q *Queue[T]) StartAt(i uint32) {
	q.pushed.Store(i)
	q.popped.Store(i)
	q.seen, q.known = i, i
}
