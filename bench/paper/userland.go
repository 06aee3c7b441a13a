package paper

// userland is the router's user processes, best priority first. A process runs
// until it sleeps, a kernel thread wants the CPU, or a better one wakes.
type userland struct {
	m          *machine
	processes  []process
	current    process // ran last
	asleep     bool    // current has slept since
	preempted  bool    // a thread has taken the CPU from current
	reschedule bool    // a process that is not current has woken
}

// process is one of them.
type process interface {
	runnable() bool
	run()            // until it sleeps or spendUser says that it must stop
	resume() float64 // µs to go on after a thread has preempted it
	tick()
}

// add appends a process, of less priority than those before it.
func (u *userland) add(p process) { u.processes = append(u.processes, p) }

func (u *userland) tick() {
	for _, p := range u.processes {
		p.tick()
	}
}

// preempt notes that a kernel thread takes the CPU now.
func (u *userland) preempt() { u.preempted = true }

// run gives the CPU to the best process; false if none wants it.
func (u *userland) run() bool {
	for _, p := range u.processes {
		if !p.runnable() {
			continue
		}
		u.reschedule = false
		switch {
		case p != u.current || u.asleep:
			u.m.spend(u.m.bed.Switch, atThread)
		case u.preempted:
			u.m.spend(p.resume(), atThread)
		}
		u.current, u.asleep, u.preempted = p, false, false
		p.run()
		if !p.runnable() {
			u.asleep = true
		}
		return true
	}
	return false
}

// screen is the screening process and the queue it is fed from.
type screen struct {
	m        *machine
	queue    int
	dropped  int
	asleep   bool
	holds    bool    // it has a packet to decide on
	left     float64 // of that decision
	dequeued func()  // told of every packet it fetches
}

// enqueue is the kernel's side.
func (s *screen) enqueue() {
	s.m.spend(s.m.bed.Enqueue, atThread)
	if s.queue == s.m.bed.ScreenQueue {
		s.dropped++
		return
	}
	s.queue++
	if s.asleep {
		s.m.spend(s.m.bed.Wakeup, atThread)
		s.asleep = false
	}
}

// Len is the queue as the scheduler sees it.
func (s *screen) Len() int { return s.queue }

func (s *screen) empty() bool { return s.queue == 0 && !s.holds }

func (s *screen) runnable() bool { return !s.asleep }
func (s *screen) tick()          {}

// resume is dear: it has code and tables enough to fill the caches.
func (s *screen) resume() float64 { return s.m.bed.Resume + s.m.bed.Refill }

func (s *screen) run() {
	if s.holds {
		if s.left = s.m.spendUser(s.left); s.left > 0 {
			return
		}
		s.m.spend(s.m.bed.Call, atThread)
		s.m.out.output(atThread)
		s.holds = false
	}
	if s.queue == 0 {
		s.asleep = true
		return
	}
	s.queue--
	s.holds = true
	s.left = s.m.bed.Decide
	s.dequeued()
}

// compute is a process that only computes; used is what it got.
type compute struct {
	m    *machine
	used float64
}

func (c *compute) runnable() bool  { return true }
func (c *compute) tick()           {}
func (c *compute) resume() float64 { return c.m.bed.Resume }

func (c *compute) run() {
	// A clock period is as good a slice as any: it goes on with the next.
	slice := c.m.bed.TickEach
	c.used += slice - c.m.spendUser(slice)
}

// daemons are all other processes together: now and then they want the CPU for
// some time, with better priority than what has been running long.
type daemons struct {
	m    *machine
	left float64
	at   float64
}

func (d *daemons) runnable() bool  { return d.left > 0 }
func (d *daemons) resume() float64 { return d.m.bed.Resume }

func (d *daemons) tick() {
	if d.m.now < d.at {
		return
	}
	d.at += d.m.bed.DaemonsEvery
	d.left += d.m.bed.Daemons
	d.m.users.reschedule = true
}

func (d *daemons) run() { d.left = d.m.spendUser(d.left) }
