package fib

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// A burst of updates is published this often. Publishing costs little, but a table that was published has to be copied where it
	// changes, so a burst is cheaper in few batches; and nobody notices 5 ms on top of what a routing protocol takes.
	maxBatchTime = 5 * time.Millisecond

	// In a burst of IPv6 routes it takes longer, by this for each route there is: after every publish the whole table is copied, which
	// costs some 0.2 µs per route (BenchmarkUpdate), and may take a fifth of the time.
	copyShare = time.Microsecond

	// What arrives while the tables are read is caught up with for at most so long before the result is shown.
	maxCatchUp = time.Second

	maxRereads = 3 // distrust
)

// follow keeps the state in step with the kernel until the sockets are closed.
func (t *Table) follow() {
	for more := false; ; {
		if !more {
			var deadline time.Time
			if t.state.todo.any() {
				deadline = t.notUntil
			}
			b, err := t.events.receive(true, deadline)
			if errors.Is(err, os.ErrClosed) {
				return
			}
			t.handle(b, err)
		}
		more = t.drain(maxBatchTime)
		if more && t.state.routes6.private {
			more = t.drain(copyShare * time.Duration(t.state.routes6.table.Size()))
		}
		if !t.state.todo.all { // then what we have is in order, if not the whole truth: a link is down, its routes are still to go
			t.publish(more)
		}
		if t.state.todo.any() && !time.Now().Before(t.notUntil) {
			if t.read() == nil { // half read is not shown
				more = t.catchUp()
			}
		}
	}
}

// catchUp follows a reading of the tables. What was notified before it and is handled only now is old: to publish halfway through would
// show the past.
func (t *Table) catchUp() (more bool) {
	more = t.drain(maxCatchUp)
	t.distrust()
	t.publish(more)
	return more
}

// distrust asks for routes once more when some were deleted while they were read: a dump goes on where it was by counting entries, and
// one that goes makes it skip another. Where routes never stand still it is done a few times only.
func (t *Table) distrust() {
	deleted := [2]bool{t.state.v4.deleted > 0, t.state.v6.deleted > 0}
	t.state.v4.deleted, t.state.v6.deleted = 0, 0
	if deleted == ([2]bool{}) || t.rereads == maxRereads {
		t.rereads = 0
		return
	}
	t.rereads++
	for i, d := range deleted {
		t.state.todo.routes[i] = t.state.todo.routes[i] || d
	}
}

// drain handles what waits in the socket, until it is empty or limit has passed; more tells that limit has.
func (t *Table) drain(limit time.Duration) (more bool) {
	start := time.Now()
	for i := 1; i%16 != 0 || time.Since(start) < limit; i++ {
		b, err := t.events.receive(false, time.Time{})
		if err == unix.EAGAIN || errors.Is(err, os.ErrClosed) {
			return false
		}
		t.handle(b, err)
	}
	return true
}

// handle applies what receive returned.
func (t *Table) handle(b []byte, err error) {
	switch {
	case err == nil:
		t.apply(b)
	case errors.Is(err, os.ErrDeadlineExceeded): // time to read
	default:
		// ENOBUFS: the socket was full. Whatever else goes wrong means the same, something was not heard; but it may go wrong again.
		t.stats.overruns.Add(1)
		t.state.todo.all = true
		if err != unix.ENOBUFS {
			time.Sleep(maxBatchTime)
		}
	}
}

// apply applies a datagram of notifications.
func (t *Table) apply(b []byte) {
	for m, rest, ok := nextMessage(b); ok; m, rest, ok = nextMessage(rest) {
		t.stats.updates.Add(1)
		t.state.apply(m)
	}
}

// publish makes the state visible; more updates are waiting or not.
func (t *Table) publish(more bool) {
	d := t.state.dirty
	next := t.state.snapshot(more)
	if next == t.snapshot.Load() {
		return
	}
	t.snapshot.Store(next)
	if d.ports || d.own || d.rules {
		select {
		case t.changes <- struct{}{}:
		default: // one is waiting already
		}
	}
}
