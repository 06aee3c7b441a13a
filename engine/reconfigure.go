package engine

import (
	"errors"

	"weir/poller"
)

// Reconfigure takes over what may change while packets flow: quotas and the marks and timeout of feedback, each from the next round of
// a worker on. It takes all of it or, with an error, nothing. Everything else in c must be as it is; the caller has seen to that.
func (e *Engine) Reconfigure(c Config) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return errors.New("weir is stopping")
	}
	if err := c.Poller.Validate(); err != nil {
		return err
	}
	for n, w := range e.workers {
		var err error
		if !w.driver.call(func() { err = w.reconfigure(c) }) {
			err = w.stuck()
		}
		if err != nil {
			for _, changed := range e.workers[:n] {
				changed.driver.call(func() { _ = changed.reconfigure(e.config) }) // it was in force before, so it is not refused
			}
			return err
		}
	}
	e.config = c
	return nil
}

// reconfigure runs on the worker's thread. What the scheduler could refuse is the same for every source and every queue, so the first
// is refused before anything has changed.
func (w *worker) reconfigure(c Config) error {
	for _, s := range w.sources {
		quota := c.Ports[s.port].Quota
		if quota == poller.Common {
			quota = c.Poller.Quota
		}
		if err := w.sched.SetQuota(s.id, quota); err != nil {
			return err
		}
	}
	for p, out := range w.egresses {
		if err := out.setFeedback(w.sched, c.feedback(p)); err != nil {
			return err
		}
	}
	for _, s := range w.sources {
		s.refeed()
	}
	return nil
}

// setFeedback makes the egress a downstream queue of the scheduler with these marks, or takes it out.
func (e *egress) setFeedback(s *poller.Scheduler, f Feedback) (err error) {
	switch {
	case f.Off && e.gates:
		e.gates = false
		return s.RemoveQueue(e.queue)
	case f.Off:
		return nil
	case e.gates:
		return s.SetQueue(e.queue, f.queueConfig(e.capacity))
	}
	e.queue, err = s.AddQueue(e.name, e, f.queueConfig(e.capacity))
	e.gates = err == nil
	return err
}

func (f Feedback) queueConfig(capacity int) poller.QueueConfig {
	return poller.QueueConfig{
		Capacity: capacity, Timeout: f.Timeout, Selective: true,
		High: int(f.High * float64(capacity)), Low: int(f.Low * float64(capacity)),
	}
}
