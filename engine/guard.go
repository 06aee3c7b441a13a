package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/napi"
)

const (
	// guardTick is how often the guard looks for a worker that is starved; two looks in a row make it certain.
	guardTick = 10 * time.Millisecond
	// inspectTicks is how many ticks pass between two looks at what others may have changed: a quarter of a second.
	inspectTicks = 25
	// watchTicks is how many ticks the window of the livelock watch has: a second.
	watchTicks = 100
	// lessonWait is how long the guard waits for a lesson in place of a worker that is starved.
	lessonWait = 10 * time.Millisecond
)

// guard looks after what the workers cannot see themselves, because they sleep, or because something outranks them:
//
//	every tick      a worker that finishes no round while its doors see packets: the guard masks the NAPI for it (rescue)
//	every quarter   NAPI ids, settings, threads, ranks, affinities: what has changed is taken back, or given up and learned again
//	every second    packets come and next to nothing is finished: livelock
//
// It has a thread of its own, off the workers' CPUs where the machine has others.
type guard struct {
	engine  *Engine
	client  *napi.Client
	journal interface {
		Took(string, int, int, napi.Settings) error
	}
	netns   int // where sockets are opened
	sources []*guarded
	workers []pulse
	cpus    int // this process may use
	ticks   int
	watch   livelockWatch
}

// guarded is what the guard remembers of one source.
type guarded struct {
	*source
	port   *port
	seen   uint64 // frames at the last tick
	known  napi.NAPI
	kernel kernelThread
	probe  placeProbe
	driven drivenShare
}

// pulse is what the guard remembers of one worker.
type pulse struct {
	beat  uint64
	still int // ticks in a row without a round though packets came
}

// openGuard makes the owners' handles and remembers what the NAPIs were; before the workers run. Without ownership there is still the
// watch over livelock.
func (e *Engine) openGuard() (err error) {
	g := &guard{engine: e, netns: -1, workers: make([]pulse, len(e.workers))}
	e.guard = g
	cpus, err := usableCPUs()
	if err != nil {
		return err
	}
	g.cpus = len(cpus)
	for _, w := range e.workers {
		for _, s := range w.sources {
			g.sources = append(g.sources, &guarded{source: s, port: e.ports[s.port]})
		}
	}
	if !e.ownership() {
		return nil
	}
	if g.netns, err = unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return fmt.Errorf("open this network namespace: %w: is /proc mounted?", err)
	}
	if g.client, err = napi.Dial(); err != nil {
		return err
	}
	for _, s := range g.sources {
		if s.owner == nil {
			continue
		}
		n, err := g.find(s)
		if err != nil {
			return err
		}
		if n.ID == 0 {
			continue
		}
		if err := g.adopt(s, n, func(f func()) { f() }); err != nil {
			return err
		}
	}
	return nil
}

// find returns the NAPI of a source's queue; ID 0 when there is none.
func (g *guard) find(s *guarded) (napi.NAPI, error) {
	list, err := g.client.List(s.port.ifindex)
	if err != nil {
		return napi.NAPI{}, fmt.Errorf("port %s: list NAPIs: %w", s.port.config.Name, err)
	}
	i := slices.IndexFunc(list, func(n napi.NAPI) bool { return n.Queue == s.sock.Queue() })
	if i < 0 {
		return napi.NAPI{}, nil
	}
	return list[i], nil
}

// adopt gives a source's owner a NAPI that the guard has not seen before, and a new handle socket for it; on runs a function on the
// worker's thread.
func (g *guard) adopt(s *guarded, n napi.NAPI, on func(func())) error {
	if g.journal != nil {
		if err := g.journal.Took(s.port.config.Name, s.port.ifindex, n.Queue, n.Settings); err != nil {
			return err
		}
	}
	sock, err := napi.OpenSocket(s.port.config.Name)
	if err != nil {
		return err
	}
	s.known = n
	on(func() {
		err = s.owner.replace(sock, n)
	})
	return err
}

// run is the guard's thread until ctx ends.
func (g *guard) run(ctx context.Context) {
	runtime.LockOSThread() // and never given back: its namespace and affinity are ours
	if g.netns >= 0 {
		if err := unix.Setns(g.netns, unix.CLONE_NEWNET); err != nil {
			g.engine.notice("guard: enter the network namespace: %v", err)
		}
	}
	g.leaveWorkers()
	ticker := time.NewTicker(guardTick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		g.ticks++
		g.feelPulse()
		if g.ticks%inspectTicks == 0 {
			g.inspect()
		}
		if g.ticks%watchTicks == 0 {
			g.watchLivelock()
		}
	}
}

// leaveWorkers moves this thread off the workers' CPUs, if there are others.
func (g *guard) leaveWorkers() {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return // it stays where it is
	}
	for _, cpu := range g.engine.plan.cpus {
		set.Clear(cpu)
	}
	if set.Count() > 0 {
		_ = unix.SchedSetaffinity(0, &set) // likewise
	}
}

// feelPulse finds workers that do not run although packets come for them. What has their CPU is most likely the NAPI itself.
func (g *guard) feelPulse() {
	came := make([]bool, len(g.workers)) // at most a worker's number of bytes, off the packet path
	for _, s := range g.sources {
		all, _, _ := s.door.Seen()
		if all != s.seen {
			came[s.worker.id] = true
		}
		s.seen = all
	}
	for i, w := range g.engine.workers {
		p := &g.workers[i]
		if beat := w.driver.beat.Load(); beat != p.beat || !came[i] {
			p.beat, p.still = beat, 0
			continue
		}
		if p.still++; p.still < 2 {
			continue
		}
		for _, s := range g.sources {
			if s.owner != nil && s.worker == w {
				g.rescue(s)
			}
		}
	}
}

// rescue masks a NAPI for a worker that does not get the CPU to do it: a poll from here, with preference, makes whoever polls now leave
// the NAPI after its next budget. The worker then runs, finds its backlog, and owns.
func (g *guard) rescue(s *guarded) {
	o := s.owner
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.sock == nil || o.means != OwnershipSocket {
		return
	}
	if !o.learned {
		g.learnFor(s)
		if o.handle == nil {
			return
		}
	}
	if !o.owned {
		if err := o.mask(); err != nil {
			return
		}
		o.rescued = true
	}
	if err := o.handle.Drive(); err != nil {
		_ = o.fail(err)
		return
	}
	o.count.rescued.Add(1)
}

// learnFor gives a lesson in place of the worker; under the owner's mu.
func (g *guard) learnFor(s *guarded) {
	o := s.owner
	s.door.Teach(o.sock.Port())
	poll := []unix.PollFd{{Fd: int32(o.sock.FD()), Events: unix.POLLIN}}
	if n, err := unix.Poll(poll, int(lessonWait.Milliseconds())); err != nil || n == 0 {
		return // the next tick tries again
	}
	rest := make([]byte, s.maxFrame)
	n, ok, err := o.sock.ReadLesson(rest)
	if !ok {
		return
	}
	head := s.door.LessonHead()
	frame := slices.Concat(head[:], rest[:n])
	timeout := time.After(lessonWait)
	s.worker.driver.post(func() { s.forwardCopy(frame) }, timeout) // a worker that has ended needs no packets
	if err != nil {
		_ = o.fail(err)
		return
	}
	o.taught()
}

// inspect looks at what others may have changed.
func (g *guard) inspect() {
	if g.client == nil {
		return
	}
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
	if err := g.checkMasking(s, n, before); err != nil {
		return err
	}
	return g.checkPlace(s, n)
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
		o.rescued = false
		return errors.Join(o.unmask(), o.handle.Drive())
	case !ours && (n.DeferHardIRQs != o.before.DeferHardIRQs || n.GROFlush != o.before.GROFlush):
		o.before.DeferHardIRQs, o.before.GROFlush = n.DeferHardIRQs, n.GROFlush // the administrator's, to be put back from now on
		if g.journal != nil {
			return g.journal.Took(s.port.config.Name, s.port.ifindex, n.Queue, o.before)
		}
	}
	return nil
}

// close puts everything back; after the workers have given their receive work up.
func (g *guard) close() error {
	var err error
	if g.client != nil {
		err = errors.Join(err, g.client.Close())
	}
	if g.netns >= 0 {
		err = errors.Join(err, unix.Close(g.netns))
		g.netns = -1
	}
	return err
}
