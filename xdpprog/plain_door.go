package xdpprog

// PlainDoor is a door on private memory with no program behind it, for tests and models that have no kernel. [PlainDoor.Admit] plays the
// program; the embedded Door is what the worker gets.
type PlainDoor struct {
	Door
}

// NewDoor returns a door as a port's doors are at first: the gate open, no credit.
func NewDoor() *PlainDoor { return &PlainDoor{Door{mem: new(doorMemory)}} }

// Admit does what the receive program does with a frame to be forwarded, in its order, and counts as it does: it reports whether the
// gate is open and a credit was left, which it then spends. It may be called beside the worker's methods, by one goroutine.
func (d *PlainDoor) Admit() bool {
	m := d.mem
	m.seen.Add(1)
	if gate := m.gate.Load(); gate != 0 {
		reason := 0
		for reason < NumReasons-1 && gate>>reason&1 == 0 {
			reason++
		}
		m.droppedGate[reason].Add(1)
		return false
	}
	limited := m.unlimited.Load() == 0
	if limited && m.spent.Load() >= m.granted.Load() {
		m.droppedNoCredit.Add(1)
		return false
	}
	if limited {
		m.spent.Add(1)
	}
	m.redirected.Add(1)
	return true
}
