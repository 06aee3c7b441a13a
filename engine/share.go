package engine

import (
	"time"

	"weir/internal/host"
)

// A share that is not strict holds only while somebody else wants the CPU. Nobody tells a worker that its CPU has nothing else to run:
// the paper's idle thread would be run by today's scheduler beside others, if rarely. What the kernel counts is idle time, in hundredths
// of a second. So the limit is enforced for a window; if the CPU was idle for half of the time that the limit left over, the next
// windows are free, and then it is enforced for a window again. See docs/adr/0022.
const (
	shareWindow      = 200 * time.Millisecond
	shareFreeWindows = 20
	// shareLeast is the least idle time that can be told from none.
	shareLeast = 10 * time.Millisecond
)

// shareWatch decides, window by window, whether a worker's share is enforced.
type shareWatch struct {
	free  int           // windows left in which it is not
	idle  time.Duration // the CPU's total at the beginning of this window
	slept time.Duration // the worker's total
}

// window ends a window; idle and slept are the CPU's idle time and the worker's time asleep because its share was used up, in all. It
// says whether the share is enforced in the next.
func (s *shareWatch) window(idle, slept time.Duration) (enforced bool) {
	newIdle, newSlept := idle-s.idle, slept-s.slept
	s.idle, s.slept = idle, slept
	switch {
	case s.free > 0:
		s.free--
	case newSlept > 0 && newIdle >= shareLeast && 2*newIdle >= newSlept:
		s.free = shareFreeWindows
	}
	return s.free == 0
}

// watchShares decides for every worker whether its share is enforced.
func (g *guard) watchShares() {
	c := g.engine.config.Poller.Share
	times, err := host.ReadCPUTimes(g.engine.plan.cpus...)
	if err != nil {
		return // enforced, then
	}
	for i, w := range g.engine.workers {
		w.driver.softIRQNS.Store(int64(times[i].SoftIRQ))
		if c.Limit >= 100 || c.Strict {
			continue
		}
		enforced := g.workers[i].share.window(times[i].Idle, time.Duration(w.driver.sharedNS.Load()))
		w.driver.free.Store(!enforced)
	}
}

// ShareStats are a worker's account of its CPU share; the scheduler's counters have its periods and overruns.
type ShareStats struct {
	// LimitPercent of one CPU in each period; 100 is no limit.
	LimitPercent float64 `json:"limit_percent"`
	PeriodNS     int64   `json:"period_ns"`
	Strict       bool    `json:"strict"`
	// Enforced says that the limit holds now: always if strict, otherwise while somebody else wants the CPU, as far as is known.
	Enforced bool `json:"enforced"`
	// UsedNS is what was charged, AsleepNS how long the worker slept with its share used up.
	UsedNS   uint64 `json:"used_ns"`
	AsleepNS int64  `json:"asleep_ns"`
	// SoftIRQNS is the CPU's time in softirq since the machine started, as the kernel counts it. What runs there for weir outside its own
	// calls is not charged.
	SoftIRQNS int64 `json:"softirq_ns"`
}

// shareStats reads the account; on the worker's thread.
func (w *worker) shareStats() ShareStats {
	c := w.sched.Config().Share
	return ShareStats{
		LimitPercent: c.Limit, PeriodNS: int64(c.Period), Strict: c.Strict, Enforced: c.Limit < 100 && !w.driver.free.Load(),
		UsedNS: w.sched.Counters().ShareUsedNS, AsleepNS: w.driver.sharedNS.Load(), SoftIRQNS: w.driver.softIRQNS.Load(),
	}
}
