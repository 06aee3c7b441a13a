package poller

// TurnEnd is the way a turn ended. Each has its own counter, and no counter
// stands for two limits.
type TurnEnd int

const (
	EndEmpty      TurnEnd = iota // nothing more was waiting
	EndQuota                     // the quota was used, more was waiting
	EndDownstream                // the room below a queue's high mark was used, or there was none
	EndGate                      // the gate was closed: the source was not visited
	EndStopped                   // the source stopped before its limit though more was waiting (no frames, for instance)

	// NumTurnEnds is how many ways there are.
	NumTurnEnds = 5
)

// String returns the name used in counters.
func (e TurnEnd) String() string {
	return [NumTurnEnds]string{"empty", "quota", "downstream", "gate", "stopped"}[e]
}

// OwnState is a state of the ownership machine drawn in doc.go.
type OwnState int

const (
	StateInterrupt OwnState = iota // the kernel runs receive work; an event wakes the worker
	StateLearning                  // the same, and the handle is being learned
	StateOwned                     // masked: receive work runs only inside Receive
	StateReleasing                 // unmasked again, and not yet looked at once more

	numStates = 4
)

// String returns the name used in counters and on the status page.
func (s OwnState) String() string {
	return [...]string{"interrupt", "learning", "owned", "releasing"}[s]
}

// Move is one way a state of the ownership machine ends, or fails to end.
type Move int

const (
	MoveLearnStarted      Move = iota // interrupt → learning
	MoveOwnedKnown                    // interrupt → owned: the handle was known already
	MoveOwnRefused                    // interrupt stays: Own failed
	MoveLearnRetried                  // learning stays: another lesson
	MoveLearnedOwned                  // learning → owned
	MoveLearnedRefused                // learning → interrupt: Own failed
	MoveLearnedElsewhere              // learning → interrupt: learned, but it does not compete any more
	MoveLearnTimedOut                 // learning → interrupt: all tries used
	MoveLearnAbandoned                // learning → interrupt: a lasting gate closed
	MoveReleasedDrained               // owned → releasing: empty for Drain
	MoveReleasedGate                  // owned → releasing: a lasting gate closed
	MoveReleasedElsewhere             // owned → releasing: it would not compete any more
	MoveReleasedCalm                  // owned → releasing: hardly anything came for Calm
	MoveReleaseFailed                 // owned stays: Release failed
	MoveRestedEmpty                   // releasing → interrupt: nothing had come in between
	MoveRestedWork                    // releasing → interrupt: something had, and was seen
	MoveLostLearning                  // learning → interrupt: Lost
	MoveLostOwned                     // owned → interrupt: Lost
	MoveLostReleasing                 // releasing → interrupt: Lost

	// NumMoves is how many moves there are.
	NumMoves = 19
)

// String returns the name used in counters.
func (m Move) String() string {
	return [NumMoves]string{
		"learn_started", "owned_known", "own_refused", "learn_retried", "learned_owned",
		"learned_refused", "learned_elsewhere", "learn_timed_out", "learn_abandoned",
		"released_drained", "released_gate", "released_elsewhere", "released_calm", "release_failed", "rested_empty", "rested_work", "lost_learning", "lost_owned", "lost_releasing",
	}[m]
}

// Counters are those of the scheduler as a whole. They only grow, LivelockNow
// apart.
type Counters struct {
	Rounds    uint64
	Received  uint64 // packets taken by all receive sources
	Delivered uint64 // packets reported done by all transmitters

	NextAgain, NextBlock, NextSleep uint64 // what Settle said
	WaitedNS                        uint64 // time between a Block or Sleep and Woke
	FruitlessWaits                  uint64 // blocks bounded by Retry: transmit work left, no progress

	SharePeriods          uint64 // periods begun
	ShareUsedNS           uint64 // CPU time charged
	ShareExhausted        uint64 // times the limit was passed
	ShareOverrunNS        uint64 // how far the limit was passed, in sum
	ShareReopenedPeriod   uint64 // input opened because a new period began
	ShareReopenedIdle     uint64 // input opened because the CPU was idle
	ShareLongestOverrunNS uint64 // longest of them

	LivelockEpisodes uint64 // times the watchdog began to see receive without delivery
	LivelockWindows  uint64 // windows in which it saw that
	LivelockNow      bool   // it saw that in the last window
	AutoTrials       uint64 // comparisons the automatic quota finished
	AutoSteps        uint64 // steps it took
	AutoDiscarded    uint64 // comparisons it gave up because the load did not last
	ClockBackwards   uint64 // calls whose time was before the last one
}

// ReceiverCounters are those of one receive source. They only grow.
type ReceiverCounters struct {
	Turns [NumTurnEnds]uint64 // by TurnEnd; their sum is the rounds this source has seen

	Received    uint64
	Granted     uint64 // credits
	LargestTurn uint64 // most packets taken in one turn
	OverLimit   uint64 // turns in which Receive reported more than it was allowed

	GateClosed [NumReasons]uint64 // by Reason.Index
	GateOpened [NumReasons]uint64
	GateNS     [NumReasons]uint64 // time closed, finished closures only

	Moves [NumMoves]uint64 // of the ownership machine, by Move
}

// TransmitterCounters are those of one transmit source. They only grow.
type TransmitterCounters struct {
	Turns     uint64
	TurnsMore uint64 // turns that left something to do
	Delivered uint64
	Kicks     uint64
	KicksLeft uint64 // kicks after which something was still pending
}

// QueueCounters are those of one downstream queue. They only grow. A closure
// ends in exactly one of OpenedLow, TimedOutSlow, TimedOutStuck and Removed.
type QueueCounters struct {
	Closed        uint64 // gates of its feeders closed
	OpenedLow     uint64 // opened: drained to the low mark
	TimedOutSlow  uint64 // opened: timeout, and it had moved
	TimedOutStuck uint64 // opened: timeout, and it had not moved
	Removed       uint64 // opened: the queue was removed
	ClosedNS      uint64 // finished closures only
}

// ReceiverStatus is a snapshot of one receive source.
type ReceiverStatus struct {
	ID       ReceiverID
	Name     string
	Quota    int    // in force: auto and common resolved
	Gate     Reason // 0 is open
	State    OwnState
	Window   int // in force
	Credit   int // granted and not yet taken
	Counters ReceiverCounters
}

// TransmitterStatus is a snapshot of one transmit source.
type TransmitterStatus struct {
	ID       TransmitterID
	Name     string
	Counters TransmitterCounters
}

// QueueStatus is a snapshot of one downstream queue.
type QueueStatus struct {
	ID       QueueID
	Name     string
	Len      int
	Closed   bool // closes its feeders' gates
	Counters QueueCounters
}

// Counters returns the scheduler's own counters: a view that changes with every
// call, for the goroutine that drives the scheduler.
func (s *Scheduler) Counters() *Counters { return &s.c }

// Receivers appends a snapshot of every receive source to dst.
func (s *Scheduler) Receivers(dst []ReceiverStatus) []ReceiverStatus {
	for _, r := range s.receivers {
		dst = append(dst, ReceiverStatus{
			ID: r.id, Name: r.name, Quota: s.quotaOf(r), Gate: r.gate.closed,
			State: r.state, Window: r.window, Credit: r.credit, Counters: r.c,
		})
	}
	return dst
}

// Transmitters appends a snapshot of every transmit source to dst.
func (s *Scheduler) Transmitters(dst []TransmitterStatus) []TransmitterStatus {
	for _, t := range s.transmitters {
		dst = append(dst, TransmitterStatus{ID: t.id, Name: t.name, Counters: t.c})
	}
	return dst
}

// Queues appends a snapshot of every downstream queue to dst.
func (s *Scheduler) Queues(dst []QueueStatus) []QueueStatus {
	for _, q := range s.queues {
		dst = append(dst, QueueStatus{
			ID: q.id, Name: q.name, Len: q.src.Len(),
			Closed: q.closed, Counters: q.c,
		})
	}
	return dst
}
