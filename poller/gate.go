package poller

import "fmt"

// gate is the door of one receive source, as the scheduler wants it.
type gate struct {
	closed    Reason
	since     [NumReasons]int64
	congested int // how many closed queues this source feeds
}

// Close closes the gate of a receive source for a reason from outside: Screen,
// EgressDown or Admin. Closing twice is closing once. The other two reasons
// are the scheduler's own and refused.
func (s *Scheduler) Close(id ReceiverID, why Reason) error {
	r, err := s.outside("close", id, why)
	if err != nil {
		return err
	}
	s.closeGate(r, why)
	return nil
}

// Open takes back what Close said. Opening what is open does nothing.
func (s *Scheduler) Open(id ReceiverID, why Reason) error {
	r, err := s.outside("open", id, why)
	if err != nil {
		return err
	}
	s.openGate(r, why)
	return nil
}

func (s *Scheduler) outside(verb string, id ReceiverID, why Reason) (*receiver, error) {
	r := s.receiver(id)
	if r == nil {
		return nil, fmt.Errorf("%s gate of source %d: %w", verb, id, ErrNotFound)
	}
	if why == 0 || why&^lasting != 0 {
		return nil, fmt.Errorf("%s gate of %s: reason %v is not one from outside: give screen, egress_down or admin", verb, r.name, why)
	}
	return r, nil
}

// closeGate and openGate take any set of reasons; the source hears of it once,
// and only if the set changes.
func (s *Scheduler) closeGate(r *receiver, why Reason) {
	why &^= r.gate.closed
	if why == 0 {
		return
	}
	r.gate.closed |= why
	s.shut = true
	for rest := why; rest != 0; rest &= rest - 1 {
		i := rest.Index()
		r.c.GateClosed[i]++
		r.gate.since[i] = s.now
	}
	r.src.SetGate(r.gate.closed)
}

func (s *Scheduler) openGate(r *receiver, why Reason) {
	why &= r.gate.closed
	if why == 0 {
		return
	}
	r.gate.closed &^= why
	for rest := why; rest != 0; rest &= rest - 1 {
		i := rest.Index()
		r.c.GateOpened[i]++
		r.c.GateNS[i] += uint64(s.now - r.gate.since[i])
	}
	if r.gate.closed == 0 {
		s.opened = true // nobody has looked while it was closed
	}
	r.src.SetGate(r.gate.closed)
}
