package xdpprog

import "net/netip"

// PlainDoor is a door on private memory with no program behind it, for tests and models that have no kernel. [PlainDoor.Admit],
// [PlainDoor.AdmitTo] and [PlainDoor.Lesson] play the program; the embedded Door is what the worker gets.
type PlainDoor struct {
	Door

	// CPU is where these three pretend to run; negative, as NewDoor makes it, is nowhere.
	CPU int
}

// NewDoor returns a door as a port's doors are at first: the gate open, no credit.
func NewDoor() *PlainDoor {
	return &PlainDoor{Door: Door{mem: new(doorMemory), destinations: new(destinationsMemory)}, CPU: -1}
}

// Admit is AdmitTo for a frame whose destination cannot be read: no egress is shut for it.
func (d *PlainDoor) Admit() bool { return d.AdmitTo(netip.Addr{}) }

// AdmitTo does what the receive program does with a frame to be forwarded to dst, in its order but for lessons, and counts as it does: it
// reports whether the gate is open, dst not known to leave by an egress that is shut, and a credit left, which it then spends. It may be
// called beside the worker's methods, by one goroutine, the one that calls Admit and Lesson.
func (d *PlainDoor) AdmitTo(dst netip.Addr) bool {
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
	if shut := m.shut.Load(); shut != 0 && d.isShut(dst, shut) {
		m.droppedEgress.Add(1)
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

// isShut says whether dst is known to leave by an egress in shut.
func (d *PlainDoor) isShut(dst netip.Addr, shut uint64) bool {
	high, low, family := split(dst)
	s := &d.destinations.slots[hash(high, low)]
	tag := s.tag.Load()
	if !dst.IsValid() || tag <= d.mem.forgotten.Load() || tag&tagIPv6 != family || shut>>(tag&tagEgress)&1 == 0 {
		return false
	}
	return s.addr[0].Load() == high && s.addr[1].Load() == low && s.tag.Load() == tag
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
