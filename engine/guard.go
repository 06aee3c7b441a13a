package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/napi"
)

const (
	// guardTick is how often the guard looks for a worker that is starved; two looks in a row make it certain.
	guardTick = 10 * time.Millisecond
	// quietTick is the tick after quietTicks in which no packet came.
	quietTick  = 20 * guardTick
	quietTicks = 10
	// inspectTicks is how many ticks pass between two looks at what others may have changed: a quarter of a second.
	inspectTicks = 25
	// shareTicks is how many ticks a window of the CPU share has.
	shareTicks = int(shareWindow / guardTick)
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
	journal *napi.Journal // nil when none is kept
	netns   int           // where sockets are opened
	sources []*guarded
	workers []pulse
	cpus    int                 // this process may use
	listed  map[int][]napi.NAPI // of each port, during one inspection
	ticks   int
	quiet   int // ticks in a row in which no packet came to any worker
	// When each look is due, in ticks.
	shareDue, inspectDue, watchDue int
	watch                          livelockWatch
}

// guarded is what the guard remembers of one source.
type guarded struct {
	*source
	port   *port
	masker masker       // the guard's own; nil when there is nothing to mask with
	device *napi.Device // what the NAPI is set by where the kernel cannot set single ones
	// Frames at the last tick: all of them, and those on the worker's CPU.
	seen, here uint64
	known      napi.NAPI
	noted      napi.Settings // in the journal, to be put back
	kernel     kernelThread
	took       took
	means      Ownership // as last said
	said       string    // the last error, which is not said again
	probe      placeProbe
	driven     drivenShare
}

// pulse is what the guard remembers of one worker.
type pulse struct {
	beat  uint64
	still int // ticks in a row without a round though packets came
	share shareWatch
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
	if !e.config.owns() {
		return nil
	}
	if g.netns, err = unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return fmt.Errorf("open this network namespace: %w: is /proc mounted?", err)
	}
	if err := errors.Join(g.openClient(), g.openJournal()); err != nil {
		return err
	}
	for _, s := range g.sources {
		if s.owner == nil {
			continue
		}
		s.means = s.owner.means
		if err := g.equip(s); err != nil {
			return err
		}
		n, err := g.find(s)
		if err == nil && n.ID != 0 {
			err = g.adopt(s, n, func(f func()) error { f(); return nil })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// equip gives an owner what it masks with: a netlink socket of its worker, or the files of its device.
func (g *guard) equip(s *guarded) (err error) {
	if g.client != nil {
		w := s.worker
		if w.client == nil {
			w.client, err = napi.Dial()
		}
		s.owner.masker, s.masker = w.client, g.client
		return err
	}
	s.device, err = napi.OpenDevice(s.port.config.Name)
	if errors.Is(err, napi.ErrUnsupported) {
		g.engine.warn("port %s: receive work cannot be owned: %v", s.port.config.Name, err)
		return nil
	}
	if s.port.queues.rx > 1 {
		g.engine.warn("port %s: receive work cannot be owned: with several queues it takes Linux 6.13", s.port.config.Name)
	}
	if err == nil {
		s.owner.masker, s.masker = deviceMasker{s.device}, deviceMasker{s.device}
	}
	return err
}

// deviceMasker masks a device of one queue as if it were a NAPI.
type deviceMasker struct{ *napi.Device }

// SetMasking sets the masking of the device.
func (m deviceMasker) SetMasking(_ int, deferHardIRQs uint32, groFlush time.Duration) error {
	return m.Device.SetMasking(deferHardIRQs, groFlush)
}

// openClient leaves g.client nil where the kernel does not tell about single NAPIs (before Linux 6.13).
func (g *guard) openClient() error {
	client, err := napi.Dial()
	switch {
	case errors.Is(err, napi.ErrUnsupported):
		return nil
	case err != nil:
		return err
	case !client.CanSet():
		return client.Close()
	}
	g.client = client
	return nil
}

// openJournal puts back what a weir that was killed has left changed, and keeps a journal from now on.
func (g *guard) openJournal() error {
	if g.engine.config.RunDir == "" {
		return nil
	}
	journal, err := napi.OpenJournal(g.engine.config.RunDir)
	if errors.Is(err, napi.ErrInUse) || errors.Is(err, fs.ErrPermission) {
		g.engine.warn("%v: what weir changes on NAPIs would not be put back after a kill", err)
		return nil
	}
	if err != nil {
		return err
	}
	g.journal = journal
	words, err := journal.Replay(g.client)
	for _, w := range words {
		g.engine.warn("left by a weir that was killed: %s", w)
	}
	return err
}

// anonymous is the id of a NAPI that the kernel does not tell. Its queue is the only one of its device.
const anonymous = -1

// find returns the NAPI of a source's queue; ID 0 when there is none that could be owned.
func (g *guard) find(s *guarded) (napi.NAPI, error) {
	if g.client == nil {
		if s.device == nil || s.port.queues.rx > 1 {
			return napi.NAPI{}, nil
		}
		settings, err := s.device.Settings()
		return napi.NAPI{ID: anonymous, Queue: s.sock.Queue(), Settings: settings}, err
	}
	list, known := g.listed[s.port.ifindex]
	if !known {
		var err error
		if list, err = g.client.List(s.port.ifindex); err != nil {
			return napi.NAPI{}, fmt.Errorf("port %s: %w", s.port.config.Name, err)
		}
		if g.listed != nil {
			g.listed[s.port.ifindex] = list
		}
	}
	i := slices.IndexFunc(list, func(n napi.NAPI) bool { return n.Queue == s.sock.Queue() })
	if i < 0 {
		return napi.NAPI{}, nil
	}
	return list[i], nil
}

// adopt gives a source's owner a NAPI that the guard has not seen before, and a new handle socket for it; on runs a function on the
// worker's thread, or fails.
func (g *guard) adopt(s *guarded, n napi.NAPI, on func(func()) error) error {
	if err := g.note(s, n.Settings); err != nil {
		return err
	}
	o := s.owner
	var sock lessonSocket // nil, not a nil *napi.Socket
	var refused error
	if o.asked == OwnershipAuto || o.asked == OwnershipSocket {
		opened, err := napi.OpenSocket(s.port.config.Name)
		switch {
		case err == nil:
			sock = opened
		case o.asked == OwnershipSocket:
			return err
		}
		refused = err
	}
	var err error
	failed := on(func() {
		err = o.replace(sock, n)
		if refused != nil {
			o.giveUpSocket(refused)
		}
	})
	if failed != nil {
		if sock != nil {
			failed = errors.Join(failed, sock.Close())
		}
		return failed // s.known stays, so that the next look tries again
	}
	s.known = n
	return err
}

// note writes into the journal what is to be put back of a source's NAPI, in place of what was noted before.
func (g *guard) note(s *guarded, before napi.Settings) error {
	if g.journal != nil {
		name, queue := s.port.config.Name, s.where()
		if err := errors.Join(g.journal.Restored(name, queue), g.journal.Took(name, queue, before)); err != nil {
			return err
		}
	}
	s.noted = before
	return nil
}

// where is the place of a source's NAPI in the journal.
func (s *guarded) where() int {
	if s.device != nil {
		return napi.DeviceWide
	}
	return s.sock.Queue()
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
	g.shareDue, g.inspectDue, g.watchDue = shareTicks, inspectTicks, watchTicks
	for ctx.Err() == nil {
		// A sleep of this very thread: a ticker would wake the runtime for each tick.
		tick := guardTick
		if g.quiet >= quietTicks {
			tick = quietTick
		}
		rest := unix.NsecToTimespec(int64(tick))
		_ = unix.Nanosleep(&rest, nil) // cut short by a signal it is a shorter tick
		g.ticks += int(tick / guardTick)
		g.feelPulse()
		if g.ticks >= g.shareDue && g.quiet < quietTicks {
			g.shareDue = g.ticks + shareTicks
			g.watchShares()
		}
		if g.ticks >= g.inspectDue {
			g.inspectDue = g.ticks + inspectTicks
			if g.quiet >= quietTicks {
				g.inspectDue = g.ticks + 4*inspectTicks
			}
			g.inspect()
		}
		if g.ticks >= g.watchDue {
			g.watchDue = g.ticks + watchTicks
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

// feelPulse finds workers that do not run although packets come for them on their own CPU. What has that CPU is most likely the NAPI.
func (g *guard) feelPulse() {
	came := make([]bool, len(g.workers))
	g.quiet++
	for _, s := range g.sources {
		all, here, _ := s.door.Seen()
		if all != s.seen {
			g.quiet = 0
		}
		if 2*(here-s.here) > all-s.seen { // what runs elsewhere does not keep the worker from running
			came[s.worker.id] = true
		}
		s.seen, s.here = all, here
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
			if s.worker == w && s.owner != nil {
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
		if err := o.mask(s.masker); err != nil {
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
	o.ask()
	poll := []unix.PollFd{{Fd: int32(o.sock.FD()), Events: unix.POLLIN}}
	if n, err := unix.Poll(poll, int(lessonWait.Milliseconds())); err != nil || n == 0 {
		return // the next tick tries again
	}
	rest := make([]byte, s.maxFrame)
	n, ok, err := o.sock.ReadLesson(rest)
	if !ok {
		return
	}
	o.asking = false
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

// close puts everything back; after the workers have given their receive work up.
func (g *guard) close() error {
	var errs []error
	for _, s := range g.sources {
		err := s.restoreThread()
		errs = append(errs, err)
		if g.journal != nil && err == nil && (s.owner == nil || s.owner.kept == nil) {
			errs = append(errs, g.journal.Restored(s.port.config.Name, s.where()))
		}
		if s.device != nil {
			errs = append(errs, s.device.Close())
		}
	}
	for _, w := range g.engine.workers {
		w.threads.close()
		if w.client != nil {
			errs = append(errs, w.client.Close())
		}
	}
	if g.client != nil {
		errs = append(errs, g.client.Close())
	}
	if g.journal != nil {
		errs = append(errs, g.journal.Close())
	}
	if g.netns >= 0 {
		errs = append(errs, unix.Close(g.netns))
	}
	return errors.Join(errs...)
}
