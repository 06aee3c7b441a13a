package xdpprog

// Door is one queue's door: its gate, its credits and its counters, in memory shared with the receive program. What a method stores is
// in force for the next frame; no method makes a system call, allocates or locks.
//
// A door starts without credit: until the first [Door.Grant] or [Door.SetUnlimited], frames to be forwarded are dropped and counted under
// DroppedNoCredit. Frames for the kernel pass whatever the door says.
//
// The methods that set something, Teach, Learn and Forget among them, belong to one goroutine, the queue's worker. Spent, Seen and Counters may be called
// by any. No method may run while [Port.Close] does; afterwards the door is a private copy that nobody reads: counters keep their last values.
type Door struct {
	mem *doorMemory

	destinations *destinationsMemory // nil once the port is closed
	writes       uint64              // slots of destinations ever written
}

// SetGate closes the gate for the given reasons, or opens it with 0. Frames dropped by a closed gate are counted under the lowest bit
// set, bits from NumReasons upwards under the last reason.
func (d *Door) SetGate(reasons uint32) {
	d.mem.gate.Store(reasons)
}

// Grant sets how many credits were ever granted. The program lets a frame in while fewer are spent, so Grant(Spent()+n) lets n more in.
// A total below Spent lets none in.
func (d *Door) Grant(total uint64) {
	d.mem.granted.Store(total)
}

// Spent returns how many credits were ever spent: one per frame redirected while the door was not unlimited. It never exceeds what was
// granted in native mode. In generic mode several CPUs may serve one queue; there each may overspend by one.
func (d *Door) Spent() uint64 {
	return d.mem.spent.Load()
}

// SetUnlimited says whether the door asks for credits (false, as it starts) or lets in every frame its gate lets in, spending none.
func (d *Door) SetUnlimited(on bool) {
	var v uint32
	if on {
		v = 1
	}
	d.mem.unlimited.Store(v)
}

// NoCredit returns how many frames were dropped because no credit was left.
func (d *Door) NoCredit() uint64 { return d.mem.droppedNoCredit.Load() }

// Counters stores the queue's counters in c.
func (d *Door) Counters(c *Counters) {
	m := d.mem
	c.Redirected = m.redirected.Load()
	c.Lessons = m.lessons.Load()
	c.DroppedEgress = m.droppedEgress.Load()
	c.DroppedTooLong = m.droppedTooLong.Load()
	c.DroppedNoCredit = m.droppedNoCredit.Load()
	for i := range m.droppedGate {
		c.DroppedGate[i] = m.droppedGate[i].Load()
	}
	for i := range NumClasses {
		c.Passed[i] = m.passed[i].Load()
		c.Limited[i] = m.limited[i].Load()
	}
	// The program counts a frame as seen first. Read last, Seen is never below the sum of the rest.
	c.Seen, c.SeenHere, c.SeenDriven = d.Seen()
}

// SetCPU tells the program on which CPU the worker runs, so that frames handled there count as SeenHere. A negative one, as at first, is
// no CPU: none counts.
func (d *Door) SetCPU(cpu int) {
	d.mem.cpu.Store(uint32(max(cpu, -1) + 1))
}

// SetDriving brackets the worker's own receive polls: frames that are handled on its CPU between SetDriving(true) and SetDriving(false)
// count as SeenDriven. It is one store, for every poll.
func (d *Door) SetDriving(on bool) {
	var v uint32
	if on {
		v = 1
	}
	d.mem.driving.Store(v)
}

// Seen returns how many frames the program was run for, how many of these on the worker's CPU, and how many of these while the worker
// was driving: all ≥ here ≥ driven. Of the frames that all and here gained between two calls, here minus driven are receive work that
// competes with the worker for its CPU.
func (d *Door) Seen() (all, here, driven uint64) {
	// The program counts in the opposite order.
	driven = d.mem.seenDriven.Load()
	here = d.mem.seenHere.Load()
	return d.mem.seen.Load(), here, driven
}
