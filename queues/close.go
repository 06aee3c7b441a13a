package queues

import (
	"sync/atomic"
	"time"
)

// Completions of packets the kernel has taken are waited for at Close, because some
// drivers in copy mode (virtio_net) send from the UMEM's pages: a frame used again
// too early would go out with the wrong bytes. On a device that lives they take
// microseconds; on one that never completes the wait ends here.
var closeLinger = 100 * time.Millisecond // constant but for fuzzing

const closePause = time.Millisecond

// Close closes the socket and frees all its frames. Detach the XDP program from the
// queue first. Packets still in RX, and packets in TX that the kernel has not taken,
// are dropped and counted (RXAbandoned, TXAbandoned).
//
// It blocks: up to 100 ms for packets the kernel is still sending, and for as long as
// the kernel needs to let go of the queue (milliseconds; with zero copy until the
// driver has stopped its queue, at most about 2 s). If the driver does not let go,
// Close returns an error, the frames stay stranded, because the device may still
// write to them, and Close may be called again.
func (s *Socket) Close() error {
	if s.conn == nil {
		return nil
	}
	for end := time.Now().Add(closeLinger); ; time.Sleep(closePause) {
		s.Reap()
		if s.transmitting <= s.TXUnsent() || time.Now().After(end) {
			break
		}
	}
	s.counters.RXAbandoned += uint64(s.Pending())
	s.counters.TXAbandoned += uint64(s.TXUnsent())
	if err := s.detach(); err != nil {
		return s.errorf("close", err)
	}
	s.umem.sockets[s.slot] = nil
	return nil
}

// detach closes the connection and frees everything lent through it.
func (s *Socket) detach() error {
	err := s.conn.Close()
	s.fd = -1
	s.state = StateGone
	s.useRings(emptyRings()) // the real ones are unmapped
	if err != nil {
		return err
	}
	s.conn = nil
	s.reclaim()
	return nil
}

// emptyRings stand in for those of a closed socket, so that a late call finds
// nothing instead of memory that is gone.
func emptyRings() Rings {
	return Rings{
		Fill:       emptyRing[uint64](),
		Completion: emptyRing[uint64](),
		RX:         emptyRing[Desc](),
		TX:         emptyRing[Desc](),
	}
}

func emptyRing[T any]() Ring[T] {
	return Ring[T]{Producer: new(atomic.Uint32), Consumer: new(atomic.Uint32), Flags: new(atomic.Uint32)}
}

// reclaim frees every frame that carries this socket's marks.
func (s *Socket) reclaim() {
	for frame, o := range s.umem.owners {
		if o == s.receiveMark || o == s.transmitMark {
			s.umem.putFree(uint32(frame))
		}
	}
	s.receiving, s.transmitting = 0, 0
}
