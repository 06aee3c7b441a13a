package poller

import "fmt"

// Shutter is a Receiver that can refuse at its door what is for one queue and
// let in the rest. Selective queues tell it when they close and open; it tells
// with SetFeeds which of them its packets are for.
type Shutter interface {
	Receiver
	// SetShut says that a selective queue which this source feeds has closed
	// or opened. Called when that changes, or when the source begins or ends
	// feeding it.
	SetShut(q QueueID, shut bool)
}

// feed is a selective queue and whether a source feeds it.
type feed struct {
	q    *queue
	fed  bool
	told bool // what SetShut said last
}

// selective is what a source has to do with selective queues. Its gate closes
// when all of those it feeds are closed: then nothing of what comes could be
// finished, and not to look is cheaper than to refuse. While only some are, it
// is told which, and goes on.
type selective struct {
	shutter Shutter
	feeds   []feed
	closed  bool // all that it feeds are closed
}

// only returns the queue that a source feeds, if there is exactly one. Its room
// bounds a turn as that of any other queue does; where there are several,
// nobody knows beforehand what the next packets are for.
func (f *selective) only() *queue {
	var one *queue
	for i := range f.feeds {
		if f.feeds[i].fed {
			if one != nil {
				return nil
			}
			one = f.feeds[i].q
		}
	}
	return one
}

// SetFeeds says that a source has begun or ended to feed a selective queue. It
// may be called from Receive of that source. A source that was never said to
// feed a queue is not stopped by it.
func (s *Scheduler) SetFeeds(id ReceiverID, qid QueueID, fed bool) error {
	r := s.receiver(id)
	if r == nil {
		return fmt.Errorf("feeds of source %d: %w", id, ErrNotFound)
	}
	for i := range r.sel.feeds {
		if f := &r.sel.feeds[i]; f.q.id == qid {
			if f.fed != fed {
				f.fed = fed
				s.reviewFeeds(r)
			}
			return nil
		}
	}
	return fmt.Errorf("feeds of source %s: selective queue %d: %w", r.name, qid, ErrNotFound)
}

// reviewFeeds brings a source up to date with the selective queues it feeds.
func (s *Scheduler) reviewFeeds(r *receiver) {
	numFed, numShut := 0, 0
	for i := range r.sel.feeds {
		f := &r.sel.feeds[i]
		shut := f.fed && f.q.closed
		if f.fed {
			numFed++
		}
		if shut {
			numShut++
		}
		if shut != f.told {
			f.told = shut
			r.sel.shutter.SetShut(f.q.id, shut)
		}
	}
	closed := numFed > 0 && numShut == numFed
	if closed == r.sel.closed {
		return
	}
	r.sel.closed = closed
	if closed {
		r.gate.congested++
		s.closeGate(r, Feedback)
		return
	}
	if r.gate.congested--; r.gate.congested == 0 {
		s.openGate(r, Feedback)
	}
}

// reviewFeeders tells every source that feeds a selective queue that it has
// closed or opened.
func (s *Scheduler) reviewFeeders(q *queue) {
	for _, r := range s.receivers {
		for i := range r.sel.feeds {
			if r.sel.feeds[i].q == q {
				s.reviewFeeds(r)
			}
		}
	}
}

// unfeed forgets a queue that is removed; it is open by then.
func (r *receiver) unfeed(q *queue) {
	for i := range r.sel.feeds {
		if r.sel.feeds[i].q == q {
			r.sel.feeds = append(r.sel.feeds[:i], r.sel.feeds[i+1:]...)
			return
		}
	}
}
