package engine

import (
	"weir/poller"
	"weir/queues"
	"weir/xdpprog"
)

// Counters of a source beyond its drops, which are counted under their Reason; index forwarded counts packets handed to an egress.
const (
	sourceReceived    = int(numReasons) + iota // frames taken from the RX ring
	numSourceCounters = int(numReasons) + 1
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
	touched byte // keeps the compiler from leaving the touching out; nobody reads it
	counters
}

// inTransit is how many packets the kernel may hold between the door, which spent their credits, and the RX ring: it publishes them when
// its poll ends, at most one NAPI budget later. So many frames are kept back from the credits.
const inTransit = 64

// Receive takes up to max packets from the RX ring and runs each to its end: an egress or a drop. Then it gives the kernel frames to
// receive into. Packets that arrive meanwhile wait for the next turn, or a turn without a quota would never end under overload.
func (s *source) Receive(max int) (taken int, more bool) {
	max = min(max, s.sock.Pending())
	for taken < max {
		batch := s.worker.batch[:min(max-taken, len(s.worker.batch))]
		n := s.sock.Receive(batch)
		s.forwardBatch(batch[:n])
		taken += n
		if n < len(batch) {
			break
		}
	}
	s.sock.Refill()
	if taken == 0 {
		s.grant()
	}
	return taken, s.sock.Pending() > 0
}

// forwardBatch decides on each packet of the batch and hands its frame to an egress or back to the free frames.
func (s *source) forwardBatch(batch []queues.Desc) {
	table := s.worker.table.Snapshot()
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
	e := s.worker.egresses[port]
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
// be taken.
func (s *source) SetGate(r poller.Reason) {
	s.worker.driver.listen(s.slot, r == 0)
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
	// Refused descriptors are lost as well: the scheduler never hears of them.
	spent, seen := s.door.Spent(), s.live[sourceReceived]-s.live[DropBadDescriptor]+uint64(s.sock.Pending())
	lost := uint64(0)
	if spent > seen {
		lost = spent - seen
	}
	s.door.Grant(s.granted + lost)
}
