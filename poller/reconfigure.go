package poller

import "fmt"

// SetQuota gives a receive source a quota of its own from its next turn on. A quota that is refused leaves the old one in force.
func (s *Scheduler) SetQuota(id ReceiverID, q Quota) error {
	r := s.receiver(id)
	if r == nil {
		return fmt.Errorf("set the quota of source %d: %w", id, ErrNotFound)
	}
	if err := s.cfg.checkReceiver(r.name, ReceiverConfig{Quota: q}); err != nil {
		return err
	}
	if q == Common {
		q = s.cfg.Quota
	}
	r.quota = q
	return nil
}

// SetWindow changes the credit window of a receive source from its next turn on. A smaller one takes nothing back: nothing more is granted
// until what is granted and not yet taken has fallen below it. 0 grants no credits any more. A window that is refused leaves the old one in
// force.
func (s *Scheduler) SetWindow(id ReceiverID, n int) error {
	r := s.receiver(id)
	if r == nil {
		return fmt.Errorf("set the window of source %d: %w", id, ErrNotFound)
	}
	if err := s.cfg.checkReceiver(r.name, ReceiverConfig{Quota: Common, Window: n}); err != nil {
		return err
	}
	r.window = n
	return nil
}

// SetQueue changes the capacity, marks and timeout of a downstream queue; its feeders stay, and whether it is selective. A queue that is closed is judged by the new
// marks from the next round on, and by the new timeout from its next closure on. Settings that are refused leave the old ones in force.
func (s *Scheduler) SetQueue(id QueueID, qc QueueConfig) error {
	for _, q := range s.queues {
		if q.id == id {
			if err := s.cfg.checkQueue(q.name, qc); err != nil {
				return err
			}
			q.set(qc)
			return nil
		}
	}
	return fmt.Errorf("set the marks of queue %d: %w", id, ErrNotFound)
}
