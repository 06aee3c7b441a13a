package engine

import (
	"weir/engine/fib"
	"weir/poller"
	"weir/queues"
	"weir/xdpprog"
)

// Counters of a source beyond its drops, which are counted under their Reason; index forwarded counts packets handed to an egress.
const (
	sourceReceived    = int(numReasons) + iota // frames taken from the RX ring, and lessons that came back
	sourceLessons                              // of these, lessons
	sourceFillDepth                            // frames lent for receiving; no counter: it rises and falls
	numSourceCounters = int(numReasons) + 3
)

// source is one receive queue of one port: its AF_XDP socket and its door. It belongs to its worker's thread.
type source struct {
	worker *worker
	port   int
	sock   *queues.Socket
	umem   *queues.UMEM
	door   *xdpprog.Door
	// partial says that the port delivers locally produced segments with partial checksums.
	partial bool
	id      poller.ReceiverID
	slot    int // in the driver's poll set
	// discard says that packets are refused by the door; otherwise it stays open and the ring behind it fills.
	discard bool
	granted uint64
	fill    fillDepth
	table   *fib.Snapshot // of the last batch
	feeding
	refused uint64 // packets the door had refused for want of credit at the end of the last turn
	losing  bool   // packets were refused since the owner was asked
	behind  bool   // the last turn left packets
	owner   *owner // nil when its receive work cannot be owned
	// maxFrame is the longest frame a frame of the UMEM takes.
	maxFrame int
	touched  byte // keeps the compiler from leaving the touching out; nobody reads it
	counters
}

// inTransit is how many packets the kernel may hold between the door, which spent their credits, and the RX ring: it publishes them when
// its poll ends, at most one NAPI budget later. So many frames are kept back from the credits.
const inTransit = 64

// Receive takes up to limit packets from the RX ring and runs each to its end: an egress or a drop. Then it gives the kernel frames to
// receive into. Packets that arrive meanwhile wait for the next turn, or a turn without a quota would never end under overload. While
// receive work is owned it polls the device first, and a full turn means that the device may have more.
func (s *source) Receive(limit int) (taken int, more bool) {
	owned := s.owner != nil && s.owner.owned
	if owned {
		s.owner.drive(limit)
	}
	for left := min(limit, s.sock.Pending()); left > 0; {
		batch := s.worker.batch[:min(left, len(s.worker.batch))]
		n := s.sock.Receive(batch)
		s.forwardBatch(batch[:n])
		taken += n
		left -= len(batch)
	}
	waiting := s.sock.Pending()
	if taken > 0 {
		s.adaptFill(limit, waiting)
		s.noteFeeds()
	}
	s.sock.Refill()
	if taken == 0 {
		s.grant()
	}
	s.behind = waiting > 0 || owned && taken == limit
	return taken, s.behind
}

// adaptFill lets the Fill depth follow the load, and the credits with it.
func (s *source) adaptFill(limit, waiting int) {
	lent, refused := s.sock.FillLen(), s.door.NoCredit()
	starved := refused != s.refused || lent == waiting
	s.refused = refused
	s.losing = s.losing || starved
	if s.fill.note(starved, limit, waiting, lent) {
		s.setFill()
	}
}

// setFill puts the Fill depth in force.
func (s *source) setFill() {
	s.sock.SetFillDepth(s.fill.now)
	s.live[sourceFillDepth] = uint64(s.fill.now)
	_ = s.worker.sched.SetWindow(s.id, s.window()) // refuses only sources that it does not know
}

// window is how many packets may be past the door and not yet taken.
func (s *source) window() int { return max(1, s.fill.now-inTransit) }

// forwardCopy is forwardLesson for a frame outside the UMEM; on the worker's thread.
func (s *source) forwardCopy(frame []byte) {
	addr, ok := s.umem.Alloc()
	if !ok {
		s.live[sourceLessons]++
		s.live[sourceReceived]++
		s.live[DropNoFrame]++
		return
	}
	d := queues.Desc{Addr: addr, Len: uint32(len(frame))}
	copy(s.umem.Data(d), frame)
	s.forwardLesson(d)
}

// forwardLesson runs a packet to its end that came back as a lesson, outside the source's turns.
func (s *source) forwardLesson(d queues.Desc) {
	s.live[sourceLessons]++
	one := [1]queues.Desc{d}
	s.forwardBatch(one[:])
	for _, e := range s.worker.egresses {
		e.Kick() // what is left pending, the next round sees
	}
}

// forwardBatch decides on each packet of the batch and hands its frame to an egress or back to the free frames.
func (s *source) forwardBatch(batch []queues.Desc) {
	table := s.worker.table.Snapshot()
	if table != s.table {
		s.table = table
		s.door.Forget()
	}
	s.live[sourceReceived] += uint64(len(batch))
	// The headers come from the memory of the CPU that received them. Touched one after the other here, they are on their way together;
	// touched by forward, each packet would wait for its own.
	for _, d := range batch {
		if frame := s.umem.Data(d); len(frame) > 0 {
			s.touched ^= frame[0]
		}
	}
	// Packets in a row for one egress are handed over together; they gather at the front of the batch, behind the one being decided on.
	run, egress := 0, 0
	for _, d := range batch {
		frame := s.umem.Data(d)
		h := forward(frame, s.partial, table)
		if h.ask {
			s.worker.ask(h.egress, nextHopAddr(frame, table))
		}
		if h.reason != forwarded {
			s.live[h.reason]++
			s.umem.Free(d.Addr)
			continue
		}
		if h.egress != egress {
			s.transmit(batch[:run], egress)
			run, egress = 0, h.egress
		}
		d.Len = uint32(h.length)
		batch[run] = d
		run++
	}
	s.transmit(batch[:run], egress)
	s.worker.flushAsks()
}

// transmit hands packets to the egress of a port; what that cannot hold is dropped. An egress in another UMEM (a zero-copy port beside a
// copy port) gets copies.
func (s *source) transmit(packets []queues.Desc, port int) {
	if len(packets) == 0 {
		return
	}
	e := s.worker.egresses[port]
	s.fed |= 1 << port
	if s.shut>>port&1 != 0 {
		s.learn(packets, port)
	}
	if e.umem != s.umem {
		packets = s.copyTo(e.umem, packets)
	}
	n := e.accept(packets)
	s.live[forwarded] += uint64(n)
	s.live[DropBacklogFull] += uint64(len(packets) - n)
	for _, d := range packets[n:] {
		e.umem.Free(d.Addr)
	}
}

// copyTo replaces the packets by copies in another UMEM and frees the originals. It returns those there was a frame for.
func (s *source) copyTo(to *queues.UMEM, packets []queues.Desc) []queues.Desc {
	copied := 0
	for _, d := range packets {
		if addr, ok := to.Alloc(); ok {
			twin := queues.Desc{Addr: addr, Len: d.Len}
			copy(to.Data(twin), s.umem.Data(d))
			packets[copied] = twin
			copied++
		} else {
			s.live[DropNoFrame]++
		}
		s.umem.Free(d.Addr)
	}
	return packets[:copied]
}

// publish makes the counters visible. A descriptor that the socket refused was a packet too.
func (s *source) publish() {
	refused := s.sock.Counters().RXInvalid - s.live[DropBadDescriptor]
	s.live[DropBadDescriptor] += refused
	s.live[sourceReceived] += refused
	s.counters.publish()
}

// SetGate closes the door for the reasons given; none opens it. A closed source must not end the worker's sleep: its packets could not
// be taken. While the CPU share is used up, a source that was not behind keeps its door open as far as its credits go: what little comes
// there waits for the next period, instead of paying for the flood on another.
func (s *source) SetGate(r poller.Reason) {
	s.worker.driver.listen(s.slot, r == 0)
	if r == poller.CPUShare && !s.behind {
		r = 0
	}
	if s.discard {
		s.door.SetGate(uint32(r))
	}
}

// Grant lets n more packets in.
func (s *source) Grant(n int) {
	s.granted += uint64(n)
	s.grant()
}

// grant tells the door how many packets it may have let in by now. Credits spent on packets that the socket then dropped would never
// come back by themselves, so they are added on top: those spent, less what was taken and what waits. Packets in transit look the same
// for a moment; for that moment the door may let in as many more as inTransit keeps frames for.
func (s *source) grant() {
	if !s.discard {
		return
	}
	// Refused descriptors are lost as well: the scheduler never hears of them. Lessons come back without having spent a credit.
	spent := s.door.Spent()
	seen := s.live[sourceReceived] - s.live[sourceLessons] - s.live[DropBadDescriptor] + uint64(s.sock.Pending())
	lost := uint64(0)
	if spent > seen {
		lost = spent - seen
	}
	s.door.Grant(s.granted + lost)
}
