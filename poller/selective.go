package poller

import (
	"fmt"
	"slices"
)

// Shutter is a Receiver that can refuse at its door what is for one queue and
// let in the rest. Selective queues tell it when they close and open; it tells
// with SetFeeds which of them its packets are for.
type Shutter interface {
	Receiver
	// SetShut says that a selective queue which this source feeds has closed
	// (shut) or is no reason to refuse any more: it has opened, is not fed
	// any more, or is removed. For each queue the two alternate, beginning
	// with shut. Never called while Receive of this source runs. Must not
	// call SetFeeds.
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
	closed  bool // all that it feeds are closed: 1 in gate.congested
	inTurn  bool // Receive runs
	changed bool // and has called SetFeeds
}

// room is how many packets the source may take, of as many as would be enough:
// what all the open queues together have that it feeds. Nobody knows beforehand
// which of them the next packets are for, so one that is full or stuck does not
// bound a turn while another has room.
func (f *selective) room(enough int) int {
	sum, fed := 0, false
	for i := range f.feeds {
		if !f.feeds[i].fed {
			continue
		}
		fed = true
		if q := f.feeds[i].q; !q.closed {
			if sum += q.room(); sum >= enough {
				return enough
			}
		}
	}
	if !fed {
		return enough
	}
	return sum
}

// spend takes what the source took from every allowance it may have used. One
// that is spent on another queue's packets costs a stuck queue a packet, one
// that is never spent would leave it open for ever.
func (f *selective) spend(n int) {
	for i := range f.feeds {
		if f.feeds[i].fed {
			f.feeds[i].q.spend(n)
		}
	}
}

// SetFeeds says that a source has begun or ended to feed a selective queue; at
// first it feeds none. A source is not stopped by a queue it does not feed. It
// may be called from Receive of that source, and then counts from its return
// on. A gate that opens here is looked behind in the next round, so a driver
// that calls this after Settle does not wait before.
func (s *Scheduler) SetFeeds(id ReceiverID, qid QueueID, fed bool) error {
	r := s.receiver(id)
	if r == nil {
		return fmt.Errorf("feeds of source %d: %w", id, ErrNotFound)
	}
	for i := range r.sel.feeds {
		f := &r.sel.feeds[i]
		if f.q.id != qid {
			continue
		}
		if f.fed == fed {
			return nil
		}
		f.fed = fed
		if r.sel.inTurn {
			r.sel.changed = true
			return nil
		}
		s.reviewFeeds(r)
		return nil
	}
	return fmt.Errorf("feeds of source %s: selective queue %d: %w", r.name, qid, ErrNotFound)
}

// reviewFeeds brings a source up to date with the selective queues it feeds.
func (s *Scheduler) reviewFeeds(r *receiver) {
	r.sel.changed = false
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
	if !q.selective {
		return
	}
	for _, r := range s.receivers {
		for i := range r.sel.feeds {
			if r.sel.feeds[i].q == q {
				if r.sel.feeds[i].fed {
					s.reviewFeeds(r)
				}
				break
			}
		}
	}
}

// closeFed closes what a source feeds after it has found no room in any of it.
// Its gate closes with the last.
func (s *Scheduler) closeFed(r *receiver) {
	for i := range r.sel.feeds {
		if f := &r.sel.feeds[i]; f.fed && !f.q.closed {
			s.closeQueue(f.q, f.q.src.Len())
		}
	}
}

// unfeed makes a source forget a queue before it is removed, so that its gate
// neither opens nor closes in between.
func (s *Scheduler) unfeed(r *receiver, q *queue) {
	i := slices.IndexFunc(r.sel.feeds, func(f feed) bool { return f.q == q })
	if i < 0 {
		return
	}
	if r.sel.feeds[i].told {
		r.sel.shutter.SetShut(q.id, false)
	}
	r.sel.feeds = slices.Delete(r.sel.feeds, i, i+1)
	s.reviewFeeds(r)
}
