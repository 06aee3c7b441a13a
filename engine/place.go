package engine

import (
	"slices"

	"weir/internal/napi"
)

// kernelThread is the thread of a NAPI, as the guard last saw it.
type kernelThread struct {
	pid  int // 0: the NAPI has none
	rank napi.Rank
	cpus []int
}

// look reads rank and affinity. A thread that has just ended is none; the next look finds its successor.
func (k *kernelThread) look(n napi.NAPI) {
	*k = kernelThread{}
	if n.PID == 0 {
		return
	}
	rank, cpus, err := napi.ThreadRank(n.PID)
	if err == nil {
		*k = kernelThread{pid: n.PID, rank: rank, cpus: cpus}
	}
}

// placeProbe is the schedule of looks at where receive work would run if nobody owned it. Owned, it runs on the worker's CPU whatever
// became of the rest of the machine, and owning work that would run elsewhere costs a third of the throughput. A thread's affinity
// answers that without a look; softirq shows it only when it is let go for a moment.
//
// Each look that finds the same as before doubles the time to the next.
type placeProbe struct {
	wait, left int // in inspections
}

const (
	probeFirst = 4   // a second
	probeMost  = 120 // half a minute
)

// due counts an inspection of an owned source and reports whether it is time to look.
func (p *placeProbe) due() bool {
	if p.wait == 0 {
		p.wait, p.left = probeFirst, probeFirst
	}
	if p.left--; p.left > 0 {
		return false
	}
	p.wait = min(2*p.wait, probeMost)
	p.left = p.wait
	return true
}

// reset makes the next look come soon: something has changed, or the source is not owned.
func (p *placeProbe) reset() { *p = placeProbe{} }

// checkPlace sees to it that owned receive work is given up where it would not compete for the worker's CPU any more, and that it is
// driven by the worker and nobody else.
func (g *guard) checkPlace(s *guarded, n napi.NAPI) error {
	o := s.owner
	o.mu.Lock()
	owned := o.owned
	o.mu.Unlock()
	if !owned {
		s.driven.start(s)
		if n.PID != s.known.PID {
			s.probe.reset()
		}
		s.known = n
		return nil
	}
	elsewhere := s.kernel.pid != 0 && !slices.Contains(s.kernel.cpus, s.worker.cpu)
	changed := n.PID != s.known.PID
	s.known = n
	switch {
	case changed:
		s.probe.reset()
	case elsewhere:
	case s.kernel.pid != 0 || g.cpus == 1 || !s.probe.due():
		return g.checkDriven(s)
	}
	s.driven.start(s)
	if !elsewhere && s.kernel.pid != 0 {
		return nil
	}
	s.worker.driver.post(func() { o.away = true }, nil)
	return nil
}

// drivenShare tells how much of receive work was done inside the worker's own calls since the last inspection.
type drivenShare struct {
	all, driven uint64
	bad         int // inspections in a row with less than half
}

const badInspections = 3

func (d *drivenShare) start(s *guarded) {
	d.all, _, d.driven = s.door.Seen()
	d.bad = 0
}

// checkDriven gives up and starts again when receive work that should be owned was done by others for most of a second.
func (g *guard) checkDriven(s *guarded) error {
	all, _, driven := s.door.Seen()
	d := &s.driven
	came, ours := all-d.all, driven-d.driven
	d.all, d.driven = all, driven
	if came < lookAt || 2*ours >= came {
		d.bad = 0
		return nil
	}
	if d.bad++; d.bad < badInspections {
		return nil
	}
	d.bad = 0
	g.engine.notice("port %s queue %d: owned, but only %d of %d packets were received by the worker's own calls: learned again",
		s.port.config.Name, s.sock.Queue(), ours, came)
	return g.renew(s, s.known)
}
