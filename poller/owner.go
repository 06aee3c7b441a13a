package poller

import "fmt"

// ownership is where a source stands in the state machine drawn in doc.go.
type ownership struct {
	state    OwnState
	backlog  int   // turns in a row that ended with packets left
	busyNS   int64 // owned: when a turn last took a quarter of Gather, or was not to be
	deadline int64 // learning: end of this lesson
	tries    int   // learning: lessons given
	holdNS   int64 // length of the next hold-off
	holdTill int64 // interrupt: nothing is tried before
}

// noteTurn keeps the count of turns in a row that ended with packets left.
func (o *ownership) noteTurn(more bool) {
	if more {
		o.backlog++
	} else {
		o.backlog = 0
	}
}

// stepOwners moves every source's state machine as far as it goes now.
func (s *Scheduler) stepOwners() {
	if s.owners == 0 || s.cfg.Mode == Interrupt {
		return
	}
	drained := s.drained()
	for _, r := range s.receivers {
		if r.owner == nil {
			continue
		}
		lasting := r.gate.closed&lasting != 0
		switch r.state {
		case StateInterrupt:
			if !s.wantsOwner(r) || lasting || s.now < r.holdTill || !s.competes(r) {
				continue
			}
			if r.owner.Learned() {
				s.own(r, MoveOwnedKnown, MoveOwnRefused)
				continue
			}
			r.owner.Learn()
			r.tries = 1
			r.deadline = s.now + int64(s.cfg.Own.LearnTimeout)
			s.move(r, StateLearning, MoveLearnStarted)
		case StateLearning:
			switch {
			case lasting:
				s.move(r, StateInterrupt, MoveLearnAbandoned)
			case r.owner.Learned() && !s.competes(r):
				s.move(r, StateInterrupt, MoveLearnedElsewhere)
			case r.owner.Learned():
				s.own(r, MoveLearnedOwned, MoveLearnedRefused)
			case s.now < r.deadline:
			case r.tries < s.cfg.Own.LearnTries:
				r.owner.Learn()
				r.tries++
				r.deadline = s.now + int64(s.cfg.Own.LearnTimeout)
				r.c.Moves[MoveLearnRetried]++
			default:
				s.move(r, StateInterrupt, MoveLearnTimedOut)
				s.holdOff(r)
			}
		case StateOwned:
			switch {
			case s.now < r.holdTill:
			case lasting:
				s.release(r, MoveReleasedGate)
			case r.gate.closed != 0:
				// Closed for a bounded time: driving it again is only a
				// deadline away.
			case drained:
				s.release(r, MoveReleasedDrained)
			case !s.competes(r):
				s.release(r, MoveReleasedElsewhere)
			case s.calm(r):
				s.release(r, MoveReleasedCalm)
			}
		case StateReleasing:
			// The round since the release has looked at every open source.
			if r.took || r.more {
				s.move(r, StateInterrupt, MoveRestedWork)
			} else {
				s.move(r, StateInterrupt, MoveRestedEmpty)
			}
		}
	}
}

// wantsOwner tells whether the load asks for ownership. It asks for losses in
// any case, so that those of a hold-off or a closed gate are forgotten.
func (s *Scheduler) wantsOwner(r *receiver) bool {
	if s.cfg.Mode == Poll {
		return r.took
	}
	losing := r.owner.Losing() && r.took
	return losing || r.backlog >= s.cfg.Own.Backlog
}

// competes tells whether receive work is worth owning: always in mode Poll.
func (s *Scheduler) competes(r *receiver) bool {
	return s.cfg.Mode == Poll || r.owner.Competes()
}

// calm tells whether so little comes that it need not be polled for.
func (s *Scheduler) calm(r *receiver) bool {
	own := &s.cfg.Own
	return own.Gather > 0 && s.cfg.Mode == Hybrid && !s.opened && s.now-r.busyNS >= int64(own.Calm)
}

// drained tells whether every open source that is owned has been empty for
// Drain. Sources that are not owned have no say: one that is never empty and
// never owned must not keep the others' interrupts masked.
func (s *Scheduler) drained() bool {
	if s.opened { // not yet looked at
		return false
	}
	if s.pollsAll() {
		return false
	}
	return s.now-s.lastOwned >= int64(s.cfg.Drain)
}

func (s *Scheduler) own(r *receiver, good, bad Move) {
	if err := r.owner.Own(); err != nil {
		s.move(r, StateInterrupt, bad)
		s.holdOff(r)
		return
	}
	r.holdNS = int64(s.cfg.Own.HoldOff)
	s.lastOwned, r.busyNS = s.now, s.now
	s.move(r, StateOwned, good)
}

// holdOff keeps a source that failed from being tried again at once.
func (s *Scheduler) holdOff(r *receiver) {
	r.holdTill = s.now + r.holdNS
	r.holdNS = min(2*r.holdNS, int64(s.cfg.Own.HoldOffMax))
}

// release unmasks one source and looks into its device once more. Until the
// next round has looked at the rings too the worker may not block.
func (s *Scheduler) release(r *receiver, why Move) {
	if r.owner.Release() != nil {
		// Still masked, so it must be driven on; the next attempt waits.
		r.c.Moves[MoveReleaseFailed]++
		s.holdOff(r)
		return
	}
	s.move(r, StateReleasing, why)
	r.owner.Drive()
}

func (s *Scheduler) move(r *receiver, to OwnState, m Move) {
	s.inState[r.state]--
	s.inState[to]++
	r.state = to
	r.backlog = 0
	if to == StateInterrupt {
		r.owner.Losing() // what was lost up to now says nothing about what comes
	}
	r.c.Moves[m]++
}

// Lost tells the scheduler that the receive work of a source is not owned any
// more and its handle is void: a link flap, new NAPI ids, somebody's ethtool.
// The source starts again in interrupt and may learn again at once.
func (s *Scheduler) Lost(id ReceiverID) error {
	r := s.receiver(id)
	if r == nil {
		return fmt.Errorf("lost ownership of source %d: %w", id, ErrNotFound)
	}
	switch r.state {
	case StateLearning:
		s.move(r, StateInterrupt, MoveLostLearning)
	case StateOwned:
		s.move(r, StateInterrupt, MoveLostOwned)
	case StateReleasing:
		s.move(r, StateInterrupt, MoveLostReleasing)
	}
	r.holdTill = s.now
	return nil
}
