package xdpprog

// PlainDoor is a door on private memory with no program behind it, for tests and models that have no kernel. [PlainDoor.Admit] and
// [PlainDoor.Lesson] play the program; the embedded Door is what the worker gets.
type PlainDoor struct {
	Door

	// CPU is where Admit and Lesson pretend to run; negative, as NewDoor makes it, is nowhere.
	CPU int
}

// NewDoor returns a door as a port's doors are at first: the gate open, no credit.
func NewDoor() *PlainDoor { return &PlainDoor{Door: Door{mem: new(doorMemory)}, CPU: -1} }

// Admit does what the receive program does with a frame to be forwarded, in its order but for lessons, and counts as it does: it reports
// whether the gate is open and a credit was left, which it then spends. It may be called beside the worker's methods, by one goroutine,
// the one that calls Lesson.
func (d *PlainDoor) Admit() bool {
	m := d.mem
	d.see()
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

// Lesson makes a lesson of a frame to be forwarded, if one is asked for and the frame's length allows it: it counts, keeps the frame's
// head, and returns the datagram's payload, a part of frame, and the UDP port. Otherwise port is 0 and nothing has happened: the frame is
// Admit's.
func (d *PlainDoor) Lesson(frame []byte) (payload []byte, port uint16) {
	m := d.mem
	request := m.teach.Load()
	port = uint16(request)
	if port == 0 || request == m.taught.Load() || len(frame) < MinLesson || len(frame) > MaxLesson {
		return nil, 0
	}
	d.see()
	m.taught.Store(request)
	m.lessonLen = uint16(len(frame))
	copy(m.lessonHead[:], frame)
	m.lessons.Add(1)
	return frame[LessonHeadLen:], port
}

// see counts a frame.
func (d *PlainDoor) see() {
	m := d.mem
	m.seen.Add(1)
	if d.CPU >= 0 && m.cpu.Load() == uint32(d.CPU)+1 {
		m.seenHere.Add(1)
		if m.driving.Load() != 0 {
			m.seenDriven.Add(1)
		}
	}
}
