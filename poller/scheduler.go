package poller

import (
	"errors"
	"fmt"
	"slices"
)

// ErrNotFound is wrapped when an ID names nothing, or nothing any more.
var ErrNotFound = errors.New("no such source")

// Scheduler is one worker's. See doc.go for its loop and its rules. The zero
// value is not usable; call New.
type Scheduler struct {
	cfg Config

	receivers    []*receiver
	transmitters []*transmitter
	queues       []*queue
	lastID       int
	start        int            // index of the receiver that begins the next round
	owners       int            // how many receivers have an Owner
	inState      [numStates]int // how many receivers stand in each state of ownership
	allowances   bool           // some queue may have an allowance to be spent

	now   int64 // latest time we were given
	share share
	auto  autoQuota
	guard watchdog

	// What the last round and the decisions after it saw.
	taken, done  int
	more         bool // a source that had its turn has more waiting
	shut         bool // a gate has closed since, so more must be looked at again
	transmitMore bool // a transmitter has something left to do
	kickPending  bool // a ring has something left that no event announces
	opened       bool // a gate opened and its source has not been visited since

	ownedWork    bool  // an owned source had something
	lastOwned    int64 // when an owned source last had something, or was taken over
	retryNS      int64 // length of the next wait without progress
	waiting      bool
	waitingSince int64

	c Counters
}

// receiver is one receive source and all the scheduler knows about it.
type receiver struct {
	id     ReceiverID
	name   string
	src    Receiver
	owner  Owner
	quota  Quota
	window int
	queues []*queue // those it feeds

	gate   gate
	sel    selective
	credit int  // granted and not yet taken
	more   bool // its last turn ended with packets left
	took   bool // its last turn took something

	ownership
	c ReceiverCounters
}

type transmitter struct {
	id   TransmitterID
	name string
	src  Transmitter
	c    TransmitterCounters
}

// New returns a scheduler without sources. It refuses settings that cannot be
// honoured, wrapping ErrKnob and naming knob, cause and remedy.
func New(c Config) (*Scheduler, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	s := &Scheduler{cfg: c, retryNS: int64(c.Retry)}
	s.share.init(c.Share)
	s.auto.init(c)
	s.guard.windowNS = int64(c.Watchdog)
	return s, nil
}

// Config returns what is in force.
func (s *Scheduler) Config() Config { return s.cfg }

// AddReceiver adds a receive source; its first turn is in the next round. The
// name is used in errors and snapshots. Not to be called from a callback.
func (s *Scheduler) AddReceiver(name string, r Receiver, rc ReceiverConfig) (ReceiverID, error) {
	if err := s.cfg.checkReceiver(name, rc); err != nil {
		return 0, err
	}
	s.lastID++
	n := &receiver{
		id: ReceiverID(s.lastID), name: name, src: r, owner: rc.Owner,
		quota: rc.Quota, window: rc.Window,
	}
	if n.quota == Common {
		n.quota = s.cfg.Quota
	}
	n.ownership.holdNS = int64(s.cfg.Own.HoldOff)
	n.sel.shutter, _ = r.(Shutter)
	if n.owner != nil {
		s.owners++
	}
	s.inState[n.state]++
	s.receivers = append(s.receivers, n)
	for _, q := range s.queues {
		if q.feeders == nil {
			s.connect(n, q)
		}
	}
	if s.share.exhausted {
		s.closeGate(n, CPUShare)
	}
	return n.id, nil
}

// AddTransmitter adds a transmit source. Not to be called from a callback.
func (s *Scheduler) AddTransmitter(name string, t Transmitter) (TransmitterID, error) {
	s.lastID++
	s.transmitters = append(s.transmitters, &transmitter{id: TransmitterID(s.lastID), name: name, src: t})
	return TransmitterID(s.lastID), nil
}

// AddQueue adds a downstream queue, which from now on gates the sources that
// feed it. Not to be called from a callback.
func (s *Scheduler) AddQueue(name string, q Queue, qc QueueConfig) (QueueID, error) {
	if err := s.cfg.checkQueue(name, qc); err != nil {
		return 0, err
	}
	for _, id := range qc.Feeders {
		if s.receiver(id) == nil {
			return 0, fmt.Errorf("add queue %s: feeder %d: %w: add the source first", name, id, ErrNotFound)
		}
	}
	s.lastID++
	n := &queue{id: QueueID(s.lastID), name: name, src: q, feeders: slices.Clone(qc.Feeders), stuck: 1, selective: qc.Selective}
	n.set(qc)
	s.queues = append(s.queues, n)
	for _, r := range s.receivers {
		if n.feeders == nil || slices.Contains(n.feeders, r.id) {
			s.connect(r, n)
		}
	}
	return n.id, nil
}

// RemoveReceiver removes a receive source, releasing its receive work first if
// it is owned: the error is that of Release, and the source is gone all the
// same. Queues named for it alone stay, fed by nobody.
func (s *Scheduler) RemoveReceiver(id ReceiverID) error {
	i := slices.IndexFunc(s.receivers, func(r *receiver) bool { return r.id == id })
	if i < 0 {
		return fmt.Errorf("remove receive source %d: %w", id, ErrNotFound)
	}
	r := s.receivers[i]
	s.receivers = slices.Delete(s.receivers, i, i+1)
	s.inState[r.state]--
	if r.owner != nil {
		s.owners--
	}
	if r.state == StateOwned {
		if err := r.owner.Release(); err != nil {
			return fmt.Errorf("remove receive source %s: release: %w", r.name, err)
		}
	}
	return nil
}

// RemoveTransmitter removes a transmit source. What is still in its ring and
// backlog is the caller's to account for.
func (s *Scheduler) RemoveTransmitter(id TransmitterID) error {
	i := slices.IndexFunc(s.transmitters, func(t *transmitter) bool { return t.id == id })
	if i < 0 {
		return fmt.Errorf("remove transmit source %d: %w", id, ErrNotFound)
	}
	s.transmitters = slices.Delete(s.transmitters, i, i+1)
	return nil
}

// RemoveQueue removes a downstream queue and opens what it kept closed.
func (s *Scheduler) RemoveQueue(id QueueID) error {
	i := slices.IndexFunc(s.queues, func(q *queue) bool { return q.id == id })
	if i < 0 {
		return fmt.Errorf("remove queue %d: %w", id, ErrNotFound)
	}
	q := s.queues[i]
	for _, r := range s.receivers {
		s.unfeed(r, q)
	}
	if q.closed {
		q.c.Removed++
		s.openQueue(q, 0)
	}
	s.queues = slices.Delete(s.queues, i, i+1)
	for _, r := range s.receivers {
		r.queues = slices.DeleteFunc(r.queues, func(x *queue) bool { return x == q })
	}
	return nil
}

// connect makes r a feeder of q.
func (s *Scheduler) connect(r *receiver, q *queue) {
	if q.selective && r.sel.shutter != nil {
		r.sel.feeds = append(r.sel.feeds, feed{q: q})
		return
	}
	r.queues = append(r.queues, q)
	if q.closed {
		r.gate.congested++
		s.closeGate(r, Feedback)
	}
}

func (s *Scheduler) receiver(id ReceiverID) *receiver {
	for _, r := range s.receivers {
		if r.id == id {
			return r
		}
	}
	return nil
}

// advance moves our idea of the time. A time before the last one is counted and
// not followed, so that no wait grows from a driver's mistake.
func (s *Scheduler) advance(now int64) {
	if now < s.now {
		s.c.ClockBackwards++
		return
	}
	s.now = now
}
