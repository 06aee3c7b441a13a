package queues

import "golang.org/x/sys/unix"

// State says what a socket knows of its device.
type State uint8

const (
	StateBound State = iota // usable
	StateDown               // the device was down at the last system call; frames stay, it may come up again
	StateGone               // the device was removed: only Receive, Reap (for what is left) and Close make sense
)

// String returns "bound", "down" or "gone".
func (s State) String() string {
	switch s {
	case StateBound:
		return "bound"
	case StateDown:
		return "down"
	}
	return "gone"
}

// Socket is one AF_XDP socket, bound to one queue of one interface.
//
// It belongs to the goroutine of its UMEM.
type Socket struct {
	umem *UMEM
	conn Conn

	name     string // of the interface
	ifindex  int
	queue    int
	slot     int // index in umem.sockets
	mode     Mode
	fd       int
	txBudget int
	maxKicks int // most sendto calls of one Kick

	fill       Producer[uint64]
	rx         Consumer[Desc]
	tx         Producer[Desc]
	completion Consumer[uint64]

	numTX        int
	numFill      int
	fillDepth    int
	receiving    int // frames marked receiveMark
	transmitting int // frames marked transmitMark
	receiveMark  owner
	transmitMark owner

	state     State
	lastErrno unix.Errno
	counters  Counters
}

// FD returns the file descriptor, for poll and for the program's socket map. It
// stays the socket's: do not close it.
func (s *Socket) FD() int { return s.fd }

// Queue returns the queue the socket is bound to.
func (s *Socket) Queue() int { return s.queue }

// Mode returns the mode that was granted, ZeroCopy or Copy.
func (s *Socket) Mode() Mode { return s.mode }

// TXBudget returns how many packets one system call may send, or 0 where the kernel
// cannot be told and sends 32 (before XDP_MAX_TX_SKB_BUDGET, Linux 6.17).
func (s *Socket) TXBudget() int { return s.txBudget }

// State returns what the last system call said of the device. It makes none itself.
func (s *Socket) State() State { return s.state }

// LastErrno returns the errno behind the last KickFailed, KickDown or KickGone.
func (s *Socket) LastErrno() unix.Errno { return s.lastErrno }

// Counters returns the socket's own counters.
func (s *Socket) Counters() Counters { return s.counters }

// Statistics returns the kernel's counters of this socket.
func (s *Socket) Statistics() (Statistics, error) {
	if s.conn == nil {
		return Statistics{}, s.errorf("read XDP_STATISTICS of", ErrClosed)
	}
	st, err := s.conn.Statistics()
	if err != nil {
		return Statistics{}, s.errorf("read XDP_STATISTICS of", err)
	}
	return st, nil
}

// Receive takes up to len(dst) packets from RX and returns how many it wrote to dst.
// Their frames are held by the caller from then on. A descriptor that is not one of
// this socket's frames, or leaves it, is refused and counted (RXInvalid, Misused)
// and takes no place in dst.
func (s *Socket) Receive(dst []Desc) int {
	u := s.umem
	first, n := s.rx.Peek(len(dst))
	taken := 0
	for i := range n {
		d := s.rx.At(first + uint32(i))
		if !u.isPacket(d, s.receiveMark) {
			s.refuseReceived(d)
			continue
		}
		u.owners[d.Addr>>u.shift] = ownerHeld
		dst[taken] = d
		taken++
	}
	s.rx.Release(n)
	s.receiving -= taken
	u.held += taken
	return taken
}

// refuseReceived counts a descriptor that is not a packet in one of this socket's
// frames. Where only the packet is bad, the frame has come back.
func (s *Socket) refuseReceived(d Desc) {
	u := s.umem
	if frame := d.Addr >> u.shift; frame < uint64(len(u.owners)) && u.owners[frame] == s.receiveMark {
		s.receiving--
		u.putFree(uint32(frame))
	}
	s.counters.RXInvalid++
	u.misuse("receive", d.Addr)
}

// Pending returns how many packets wait in RX.
func (s *Socket) Pending() int { return s.rx.Waiting() }

// Refill lends free frames to the kernel for receiving, until it has FillDepth of
// them (see FillLen), and returns how many it added. It wakes the kernel whenever it
// sleeps for want of frames, even when there was nothing to add: a wake-up that was
// missed once would leave the queue parked for good.
func (s *Socket) Refill() int {
	if s.state == StateGone {
		return 0
	}
	n := s.lend(s.fillDepth - s.receiving)
	if s.fill.NeedWakeup() {
		s.wake()
	}
	return n
}

// lend moves up to n frames from free to Fill.
func (s *Socket) lend(n int) int {
	u := s.umem
	first, n := s.fill.Reserve(max(0, min(n, len(u.free))))
	top := len(u.free) - 1
	for i := range n {
		frame := u.free[top-i]
		u.owners[frame] = s.receiveMark
		*s.fill.At(first + uint32(i)) = uint64(frame) << u.shift
	}
	u.free = u.free[:len(u.free)-n]
	s.receiving += n
	s.fill.Submit(n)
	return n
}

// wake tells the kernel that Fill has frames.
func (s *Socket) wake() {
	s.counters.Wakes++
	errno := s.conn.Wake()
	switch sortErrno(errno) {
	case verdictDone:
		s.state = StateBound
	case verdictInterrupted, verdictMore:
		// The flag stays up and the next Refill wakes again.
	case verdictDown:
		s.fail(StateDown, errno)
		s.counters.WakesFailed++
	case verdictGone:
		s.fail(StateGone, errno)
		s.counters.WakesFailed++
	case verdictLater, verdictFatal:
		s.lastErrno = errno
		s.counters.WakesFailed++
	}
}

// SetFillDepth sets how many frames Refill keeps lent to the kernel for receiving,
// and returns what was set: n within 0 and the size of the Fill ring. Frames beyond
// a lower depth come back as they receive packets.
func (s *Socket) SetFillDepth(n int) int {
	s.fillDepth = min(max(n, 0), s.numFill)
	return s.fillDepth
}

// FillDepth returns how many frames Refill keeps lent to the kernel.
func (s *Socket) FillDepth() int { return s.fillDepth }

// FillLen returns how many frames are lent for receiving: in Fill, in RX, and in the
// kernel's hands in between.
func (s *Socket) FillLen() int { return s.receiving }

// Send moves packets from the caller to TX, as many as fit, and returns how many
// descriptors of d, from the front, it has taken; the frames of the rest stay with
// the caller. It makes no system call: Kick does. A descriptor whose frame is not
// held is refused and counted (TXInvalid, Misused); one that leaves its held frame,
// is empty or has options set too, and its frame is freed. Refused ones count as taken.
func (s *Socket) Send(d []Desc) int {
	if s.numTX == 0 || s.state == StateGone {
		return 0
	}
	u := s.umem
	first, n := s.tx.Reserve(len(d))
	good := 0
	for _, d := range d[:n] {
		if !u.isPacket(d, ownerHeld) {
			s.refuseToSend(d)
			continue
		}
		u.owners[d.Addr>>u.shift] = s.transmitMark
		*s.tx.At(first + uint32(good)) = d
		good++
	}
	u.held -= good
	s.transmitting += good
	s.tx.Submit(good)
	s.tx.Cancel(n - good)
	return n
}

// refuseToSend counts a descriptor that is not a packet in a held frame: the kernel
// would skip it and never complete it. Where only the packet is bad, its frame is freed.
func (s *Socket) refuseToSend(d Desc) {
	u := s.umem
	if frame := d.Addr >> u.shift; frame < uint64(len(u.owners)) && u.owners[frame] == ownerHeld {
		u.held--
		u.putFree(uint32(frame))
	}
	s.counters.TXInvalid++
	u.misuse("send", d.Addr)
}

// Kick makes the kernel send what is in TX. Call it once per batch, also when Send
// added nothing: a ring that was full when the kernel last looked is not looked at
// again by itself. It repeats the system call while the kernel gets on, bounded by
// what a full ring needs.
func (s *Socket) Kick() KickResult {
	if s.numTX == 0 {
		return KickEmpty
	}
	if s.state == StateGone {
		return KickGone
	}
	unsent := s.tx.Unconsumed()
	for range s.maxKicks {
		if unsent == 0 {
			return KickEmpty
		}
		if !s.tx.NeedWakeup() {
			return KickPending // the driver is at it, no call needed
		}
		s.counters.Kicks++
		errno := s.conn.Kick()
		before := unsent
		unsent = s.tx.Unconsumed()
		switch sortErrno(errno) {
		case verdictDone:
			s.state = StateBound
			if unsent == before {
				return KickPending // zero copy: the driver was woken and gets to it by itself
			}
		case verdictInterrupted:
			s.counters.KicksInterrupted++
		case verdictMore:
			s.counters.KicksAgain++
			s.state = StateBound
			if unsent == before {
				return KickPending
			}
		case verdictLater:
			s.countLater(errno)
			s.state = StateBound
			return left(unsent)
		case verdictDown:
			s.counters.KicksDown++
			s.fail(StateDown, errno)
			return KickDown
		case verdictGone:
			s.counters.KicksGone++
			s.fail(StateGone, errno)
			return KickGone
		case verdictFatal:
			s.counters.KicksFailed++
			s.lastErrno = errno
			return KickFailed
		}
	}
	return left(unsent)
}

func (s *Socket) countLater(errno unix.Errno) {
	if errno == unix.EBUSY {
		s.counters.KicksBusy++
		return
	}
	s.counters.KicksNoBuffer++
}

// Reap takes everything from Completion and frees its frames; it returns how many
// came back. An entry that is no frame in transmission on this socket is refused and
// counted (CompletionInvalid, Misused).
func (s *Socket) Reap() int {
	u := s.umem
	first, n := s.completion.Peek(s.completion.Waiting())
	freed := 0
	for i := range n {
		addr := s.completion.At(first + uint32(i))
		frame := addr >> u.shift
		if frame >= uint64(len(u.owners)) || u.owners[frame] != s.transmitMark {
			s.counters.CompletionInvalid++
			u.misuse("completion", addr)
			continue
		}
		u.putFree(uint32(frame))
		freed++
	}
	s.completion.Release(n)
	s.transmitting -= freed
	return freed
}

// TXLen returns how many packets were submitted and have not completed.
func (s *Socket) TXLen() int { return s.transmitting }

// TXUnsent returns how many packets in TX the kernel has not taken.
func (s *Socket) TXUnsent() int {
	if s.numTX == 0 {
		return 0
	}
	return s.tx.Unconsumed()
}

// TXFree returns how many packets Send would take now.
func (s *Socket) TXFree() int {
	if s.numTX == 0 || s.state == StateGone {
		return 0
	}
	return s.tx.Room()
}

// Check asks the kernel for the socket's pending error and returns the state after
// it: StateGone once the device was removed. Poll does not tell (Linux 6.18: no event
// at all, a sleeping worker sleeps on), and an idle socket makes no call that would:
// so call it when netlink reports that an interface went, or now and then. Control path.
func (s *Socket) Check() State {
	if s.conn != nil && s.conn.TakeError() != nil {
		// Only the removal of the device sets it (xsk_notifier in net/xdp/xsk.c).
		s.state = StateGone
	}
	return s.state
}

func (s *Socket) fail(state State, errno unix.Errno) {
	s.state = state
	s.lastErrno = errno
}
