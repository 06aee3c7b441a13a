package poller

import "math"

// Action is what a driver does after Settle.
type Action int

const (
	// Again: call Round again.
	Again Action = iota

	// Block: nothing to do. Wait for an event of a receive source whose gate
	// is open, for an event of a transmit source, or until UntilNS. A closed
	// source must not be listened to: its packets would end the wait at once
	// and nothing could be done with them.
	Block

	// Sleep: receive must wait whatever arrives, because the share is used
	// up, or because nothing can be done with what is there (no frames). An
	// event of a transmit source may end it. When the share is not strict
	// the driver may sleep in slices and call Idle after one in which the
	// CPU was idle.
	Sleep
)

// String returns the action's name.
func (a Action) String() string { return [...]string{"again", "block", "sleep"}[a] }

// Next is what a driver does after Settle.
type Next struct {
	Do      Action
	UntilNS int64 // end of the wait, on the clock of now; math.MaxInt64 is no end
}

// Settle takes the time after the round and the CPU time it used, brings every
// decision up to date, and says what comes next. It calls back Queue.Len, the
// Owners and SetGate.
func (s *Scheduler) Settle(now, usedNS int64) Next {
	s.advance(now)
	s.rollShare()
	s.charge(usedNS)
	s.reviewQueues()
	s.c.Received += uint64(s.taken)
	s.c.Delivered += uint64(s.done)
	if s.ownedWork {
		s.lastOwned = s.now
	}
	if s.progress() {
		s.retryNS = int64(s.cfg.Retry)
	}
	s.tuneQuota()
	s.watch()
	s.stepOwners()

	next := s.next()
	switch next.Do {
	case Again:
		s.c.NextAgain++
	case Block:
		s.c.NextBlock++
	case Sleep:
		s.c.NextSleep++
	}
	if next.Do != Again {
		s.waiting, s.waitingSince = true, s.now
	}
	return next
}

// Woke tells the scheduler that a Block or Sleep has ended. What timed out or
// drained meanwhile opens before the next round.
func (s *Scheduler) Woke(now int64) {
	s.advance(now)
	s.endWait()
	s.rollShare()
	s.reviewQueues()
}

// endWait books a wait; Round does it for a driver that forgot Woke.
func (s *Scheduler) endWait() {
	if s.waiting {
		s.waiting = false
		s.c.WaitedNS += uint64(s.now - s.waitingSince)
	}
}

// progress tells whether the last round took or finished anything.
func (s *Scheduler) progress() bool { return s.taken > 0 || s.done > 0 }

// next decides between another round and a wait. The order matters: nothing may
// wait while a source is unseen, and nothing may spin without progress unless
// it is told to: by mode Poll, or by a pause of 0 while receive work is owned.
func (s *Scheduler) next() Next {
	more := s.anyMore()
	left := s.transmitMore || s.kickPending
	if s.opened || s.inState[StateReleasing] > 0 || s.progress() && (more || left) {
		return Next{Do: Again}
	}
	owned := s.inState[StateOwned] > 0 && s.anyOwnedOpen()
	if s.spins() || owned && !more && (s.progress() && s.taken >= s.cfg.Own.Gather || s.cfg.Own.Pause == 0 || s.pollsAll()) {
		return Next{Do: Again}
	}

	until := s.nextDeadline()
	switch { // masked: nothing else would tell of its packets
	case owned && more:
		s.retryNS = int64(s.cfg.Retry)
	case owned:
		until = min(until, s.now+int64(s.cfg.Own.Pause))
	}
	if left || more {
		until = min(until, s.now+s.retryNS)
		s.retryNS = min(2*s.retryNS, int64(s.cfg.RetryMax))
		s.c.FruitlessWaits++
	}
	if s.share.exhausted || more {
		return Next{Do: Sleep, UntilNS: until}
	}
	return Next{Do: Block, UntilNS: until}
}

// spins tells whether nobody could wake us and we were told to poll: a loop
// that looks and looks, as long as it has a share of the CPU.
func (s *Scheduler) spins() bool {
	return s.cfg.Mode == Poll && s.owners == 0 && !s.share.exhausted
}

// pollsAll tells whether every source is owned and we were told to poll: they
// are not given back, and there is no pause between looks.
func (s *Scheduler) pollsAll() bool {
	return s.cfg.Mode == Poll && s.inState[StateOwned] == len(s.receivers)
}

// anyMore tells whether an open source has more waiting.
func (s *Scheduler) anyMore() bool {
	if !s.more || !s.shut {
		return s.more
	}
	for _, r := range s.receivers {
		if r.more && r.gate.closed == 0 {
			return true
		}
	}
	return false
}

func (s *Scheduler) anyOwnedOpen() bool {
	for _, r := range s.receivers {
		if r.state == StateOwned && r.gate.closed == 0 {
			return true
		}
	}
	return false
}

// nextDeadline is when time alone changes something.
func (s *Scheduler) nextDeadline() int64 {
	until := int64(math.MaxInt64)
	if s.share.exhausted {
		until = s.share.end
	}
	if s.c.LivelockNow {
		until = min(until, s.guard.started+s.guard.windowNS)
	}
	for _, q := range s.queues {
		if q.closed {
			until = min(until, q.deadline)
		}
	}
	if s.inState[StateLearning] > 0 {
		for _, r := range s.receivers {
			if r.state == StateLearning {
				until = min(until, r.deadline)
			}
		}
	}
	return until
}
