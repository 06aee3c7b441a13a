package engine

import (
	"errors"

	"weir/internal/napi"
)

// inspect looks at what others may have changed.
func (g *guard) inspect() {
	g.listed = map[int][]napi.NAPI{}
	defer func() { g.listed = nil }()
	for _, s := range g.sources {
		if s.owner == nil {
			continue
		}
		err := g.inspectSource(s)
		g.sayMeans(s)
		said := ""
		if err != nil {
			said = err.Error()
		}
		if said != s.said && err != nil {
			g.engine.notice("port %s queue %d: receive work: %v", s.port.config.Name, s.sock.Queue(), err)
		}
		s.said = said
	}
}

// sayMeans says, once, that the means asked for has been given up for another.
func (g *guard) sayMeans(s *guarded) {
	o := s.owner
	o.mu.Lock()
	means, why := o.means, o.why
	o.mu.Unlock()
	if means != s.means {
		g.engine.notice("port %s queue %d: receive work is owned by means %s from now on, not by %s: %v",
			s.port.config.Name, s.sock.Queue(), means, s.means, why)
		s.means = means
	}
}

func (g *guard) inspectSource(s *guarded) error {
	o := s.owner
	before := o.moves.Load()
	n, err := g.find(s)
	if errors.Is(err, napi.ErrGone) {
		n, err = napi.NAPI{}, nil
	}
	if err != nil {
		return err
	}
	if n.ID != s.known.ID {
		return g.renew(s, n)
	}
	if n.ID == 0 {
		return nil
	}
	s.kernel.look(n)
	o.saw(n, s.kernel)
	if o.looksForLesson() {
		s.worker.driver.post(func() { o.Learned() }, nil)
	}
	return errors.Join(g.checkMasking(s, n, before), g.checkPlace(s, n), g.checkThread(s, n))
}

// looksForLesson says whether a lesson was given that the worker may not look for any more: it has stopped learning. The second time it is
// given up.
func (o *owner) looksForLesson() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.onTheWay() {
		return false
	}
	o.asking, o.late = !o.late, true
	return o.asking
}

// renew follows a NAPI that has gone or has a new id: a link flap, other channels.
func (g *guard) renew(s *guarded, n napi.NAPI) error {
	o := s.owner
	if s.known.ID != 0 {
		g.engine.notice("port %s queue %d: its NAPI %d is gone: receive work is learned again", s.port.config.Name, s.sock.Queue(), s.known.ID)
		o.count.voided.Add(1)
	}
	on := func(f func()) error {
		var err error
		ok := s.worker.driver.call(func() {
			f()
			err = s.worker.sched.Lost(s.id)
		})
		if !ok {
			return s.worker.stuck()
		}
		return err
	}
	if n.ID != 0 {
		return g.adopt(s, n, on)
	}
	err := on(o.void)
	if err == nil {
		s.known = n
	}
	return err
}

// checkMasking compares the NAPI's settings with what they should be. before is the count of owns and releases before they were read.
func (g *guard) checkMasking(s *guarded, n napi.NAPI, before uint64) error {
	putBack, err := g.compareMasking(s, n, before)
	if s.noted == putBack {
		return err
	}
	return errors.Join(err, g.note(s, putBack)) // a disk may be behind this: nobody may wait for it
}

// compareMasking returns what is to be put back in the end.
func (g *guard) compareMasking(s *guarded, n napi.NAPI, before uint64) (napi.Settings, error) {
	o := s.owner
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.moves.Load() != before {
		return o.before, nil // they are changing; the next look tells
	}
	ours := n.DeferHardIRQs == deferHardIRQs && n.GROFlush == o.flush
	var err error
	switch {
	case o.owned && !ours:
		o.count.retaken.Add(1)
		g.engine.notice("port %s queue %d: somebody set NAPI %d to defer-hard-irqs %d, gro-flush-timeout %v while weir owns it: taken back",
			s.port.config.Name, s.sock.Queue(), n.ID, n.DeferHardIRQs, n.GROFlush)
		err = o.mask(s.masker)
	case o.owned:
		o.before.Threaded, o.before.IRQSuspend = n.Threaded, n.IRQSuspend // the administrator's, as below
	case o.rescued && g.workers[s.worker.id].still == 0:
		// The worker runs again and has found no backlog to own for.
		err = errors.Join(o.giveBack(s.masker), o.handle.Drive())
	case o.rescued || o.means == OwnershipKthread:
	case !ours:
		o.before = n.Settings // the administrator's, to be put back from now on
	}
	return o.before, err
}
