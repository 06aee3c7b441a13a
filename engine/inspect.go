package engine

import (
	"errors"

	"weir/internal/napi"
)

// inspect looks at what others may have changed.
func (g *guard) inspect() {
	for _, s := range g.sources {
		if s.owner == nil {
			continue
		}
		if err := g.inspectSource(s); err != nil {
			g.engine.notice("port %s queue %d: receive work: %v", s.port.config.Name, s.sock.Queue(), err)
		}
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
	return errors.Join(g.checkMasking(s, n, before), g.checkPlace(s, n), g.checkThread(s, n))
}

// renew follows a NAPI that has gone or has a new id: a link flap, other channels.
func (g *guard) renew(s *guarded, n napi.NAPI) error {
	o := s.owner
	if s.known.ID != 0 {
		g.engine.notice("port %s queue %d: its NAPI %d is gone: receive work is learned again", s.port.config.Name, s.sock.Queue(), s.known.ID)
		o.count.voided.Add(1)
	}
	var err error
	on := func(f func()) {
		ok := s.worker.driver.call(func() {
			f()
			err = s.worker.sched.Lost(s.id)
		})
		if !ok {
			err = s.worker.stuck()
		}
	}
	if n.ID == 0 {
		s.known = n
		on(func() { o.mu.Lock(); o.napi = n; o.learned, o.owned = false, false; o.mu.Unlock() })
		return err
	}
	return errors.Join(g.adopt(s, n, on), err)
}

// checkMasking compares the NAPI's settings with what they should be. before is the count of owns and releases before they were read.
func (g *guard) checkMasking(s *guarded, n napi.NAPI, before uint64) error {
	o := s.owner
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.moves.Load() != before || o.handle == nil {
		return nil // they are changing; the next look tells
	}
	ours := n.DeferHardIRQs == deferHardIRQs && n.GROFlush == o.flush
	switch {
	case o.owned && !ours:
		o.count.retaken.Add(1)
		g.engine.notice("port %s queue %d: somebody set NAPI %d to defer-hard-irqs %d, gro-flush-timeout %v while weir owns it: taken back",
			s.port.config.Name, s.sock.Queue(), n.ID, n.DeferHardIRQs, n.GROFlush)
		return o.mask()
	case o.owned:
		return nil
	case o.rescued && g.workers[s.worker.id].still == 0:
		// The worker runs again and has found no backlog to own for.
		return errors.Join(o.giveBack(), o.handle.Drive())
	case !ours && n.Settings != o.before && o.means != OwnershipKthread:
		o.before = n.Settings // the administrator's, to be put back from now on
		return g.note(s, o.before)
	}
	return nil
}
