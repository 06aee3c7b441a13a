package poller

// share keeps the CPU account of input. As in the paper the whole round is
// charged when it is over, so one round may pass the limit; then input stops,
// output goes on, and the account is cleared when the next period begins.
// Periods begin at multiples of their length, for all workers alike.
type share struct {
	limitNS, periodNS int64
	limited           bool // the limit is below 100 %
	strict            bool

	used      int64
	end       int64 // of this period
	exhausted bool
}

func (sh *share) init(c Share) {
	sh.periodNS = int64(c.Period)
	sh.limitNS = int64(float64(c.Period) * c.Limit / 100)
	sh.limited = c.Limit < 100
	sh.strict = c.Strict
}

// rollShare begins a new period if the last one is over.
func (s *Scheduler) rollShare() {
	sh := &s.share
	if s.now < sh.end {
		return
	}
	sh.end = s.now - mod(s.now, sh.periodNS) + sh.periodNS
	sh.used = 0
	s.c.SharePeriods++
	if sh.exhausted {
		s.c.ShareReopenedPeriod++
		s.reopenShare()
	}
}

// mod is the remainder that is never negative.
func mod(a, b int64) int64 { return ((a % b) + b) % b }

// charge books the CPU time of a round.
func (s *Scheduler) charge(usedNS int64) {
	sh := &s.share
	sh.used += usedNS
	s.c.ShareUsedNS += uint64(usedNS)
	if !sh.limited || sh.exhausted || sh.used <= sh.limitNS {
		return
	}
	over := uint64(sh.used - sh.limitNS)
	s.c.ShareExhausted++
	s.c.ShareOverrunNS += over
	s.c.ShareLongestOverrunNS = max(s.c.ShareLongestOverrunNS, over)
	sh.exhausted = true
	for _, r := range s.receivers {
		s.closeGate(r, CPUShare)
	}
}

func (s *Scheduler) reopenShare() {
	s.share.exhausted = false
	for _, r := range s.receivers {
		s.openGate(r, CPUShare)
	}
}

// ShareExhausted tells whether input waits because the share is used up.
func (s *Scheduler) ShareExhausted() bool { return s.share.exhausted }

// Idle tells the scheduler that the CPU has nothing else to run: what the
// paper's idle thread does. Unless the share is strict, input that waits for
// its next period opens again and the account is cleared. A driver that cannot
// tell need not call it; the share is then kept as if it were strict.
func (s *Scheduler) Idle(now int64) {
	s.advance(now)
	if s.share.strict || !s.share.exhausted {
		return
	}
	s.share.used = 0
	s.c.ShareReopenedIdle++
	s.reopenShare()
}
