package xdpprog

// Door is one queue's door: its gate, its credits and its counters, in memory shared with the receive program. What a method stores is
// in force for the next frame; no method makes a system call, allocates or locks.
//
// A door starts without credit: until the first [Door.Grant] or [Door.SetUnlimited], frames to be forwarded are dropped and counted under
// DroppedNoCredit. Frames for the kernel pass whatever the door says.
//
// SetGate, Grant and SetUnlimited belong to one goroutine, the queue's worker. Spent and Counters may be called by any. No method may
// run while [Port.Close] does; afterwards the door is a private copy that nobody reads: counters keep their last values.
type Door struct {
	mem *doorMemory
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

// Counters stores the queue's counters in c.
func (d *Door) Counters(c *Counters) {
	m := d.mem
	c.Redirected = m.redirected.Load()
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
	c.Seen = m.seen.Load()
}
