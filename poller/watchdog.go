package poller

// watchdog sees livelock the way the paper defines it: receive advances while
// delivery stands still. Both are counted over windows; a window counts against
// us only if transmit work was waiting, so that a worker which drops everything
// by rule is not called livelocked.
type watchdog struct {
	windowNS int64
	started  int64
	received uint64 // Counters at its beginning
	sent     uint64
	waiting  bool // transmit work was left after some round of this window
}

func (s *Scheduler) watch() {
	w := &s.guard
	w.waiting = w.waiting || s.transmitMore || s.kickPending
	if s.now-w.started < w.windowNS {
		return
	}
	livelock := s.c.Received > w.received && s.c.Delivered == w.sent && w.waiting
	if livelock {
		s.c.LivelockWindows++
		if !s.c.LivelockNow {
			s.c.LivelockEpisodes++
		}
	}
	s.c.LivelockNow = livelock
	w.started, w.received, w.sent, w.waiting = s.now, s.c.Received, s.c.Delivered, false
}

// Livelock tells whether receive advanced and delivery stood still during the
// last watchdog window, with transmit work waiting. Counters say the same to
// whoever is handed a copy. While it holds, no wait is longer than the window,
// so that its end is seen too.
func (s *Scheduler) Livelock() bool { return s.c.LivelockNow }
