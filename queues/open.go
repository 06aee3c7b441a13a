package queues

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// SocketConfig says what to open.
type SocketConfig struct {
	Interface string // for messages, and to find Ifindex when that is 0
	Ifindex   int    // in the network namespace of the calling thread
	Queue     int    // from 0
	Mode      Mode   // ZeroCopy and Copy are requirements

	// Entries of the rings, powers of two. A Completion ring smaller than TX stops
	// sending early when Reap is slow.
	//
	// NumTX 0 makes a socket that only receives. It is needed for a queue beyond the
	// device's transmit queues: there the kernel takes every Kick for success and
	// sends nothing (copy mode, Linux 6.18).
	NumRX, NumTX, NumFill, NumCompletion int

	// FillDepth is how many frames are lent for receiving before bind and kept lent
	// by Refill, 0 to NumFill. Open fails when fewer are free.
	FillDepth int

	// BindTimeout bounds how long a busy queue is tried; 0 is 2 s. The kernel lets go
	// of a queue some time after the socket on it was closed.
	BindTimeout time.Duration
}

const defaultBindTimeout = 2 * time.Second

// Open makes a socket on one queue of one interface, fills its Fill ring, and binds
// it. The first socket registers the UMEM with the kernel; later ones share that
// registration through any socket whose device is still there, and have the mode it
// was granted.
//
// Sizes and modes that cannot be are refused before anything is touched; so is a
// queue this UMEM has open. A queue that is busy is tried again within BindTimeout.
// When Open fails nothing is left open and the frames are free again. It blocks: it
// is not for the packet path. A caller that enters a network namespace for it keeps
// its goroutine locked to the thread.
//
// The errors wrap ErrRingSize, ErrFillDepth, ErrMode, ErrInUse, ErrClosed or the
// errno: EPERM without CAP_NET_RAW, ENODEV without the interface, EBUSY for a queue
// that somebody else holds, ENOBUFS beyond the locked-memory limit.
func (u *UMEM) Open(c SocketConfig) (*Socket, error) {
	s := &Socket{
		umem:      u,
		name:      c.Interface,
		ifindex:   c.Ifindex,
		queue:     c.Queue,
		fillDepth: c.FillDepth,
		numFill:   c.NumFill,
		numTX:     c.NumTX,
	}
	if err := u.validate(c); err != nil {
		return nil, s.errorf("open", err)
	}
	if s.ifindex == 0 {
		i, err := net.InterfaceByName(c.Interface)
		if err != nil {
			return nil, s.errorf("open", fmt.Errorf("%w (%w)", unix.ENODEV, err))
		}
		s.ifindex = i.Index
	}
	if s.name == "" {
		s.name = fmt.Sprintf("interface %d", s.ifindex)
	}
	for _, other := range u.sockets {
		if other != nil && other.ifindex == s.ifindex && other.queue == s.queue && other.state != StateGone {
			return nil, s.errorf("open", fmt.Errorf("%w by this UMEM: close that socket first", ErrInUse))
		}
	}
	if err := u.takeSlot(s); err != nil {
		return nil, s.errorf("open", err)
	}
	if err := s.open(c); err != nil {
		if s.conn == nil {
			u.sockets[s.slot] = nil
		}
		return nil, err
	}
	return s, nil
}

// validate refuses what can be refused without asking the kernel.
func (u *UMEM) validate(c SocketConfig) error {
	if u.mapping == nil {
		return fmt.Errorf("UMEM %w", ErrClosed)
	}
	if c.Ifindex < 0 || c.Queue < 0 {
		return fmt.Errorf("%w (interface index %d, queue %d)", unix.EINVAL, c.Ifindex, c.Queue)
	}
	for _, r := range []struct {
		name string
		size int
	}{{"RX", c.NumRX}, {"TX", c.NumTX}, {"Fill", c.NumFill}, {"Completion", c.NumCompletion}} {
		if r.name == "TX" && r.size == 0 {
			continue
		}
		if r.size <= 0 || r.size&(r.size-1) != 0 || uint64(r.size) > maxRing {
			return fmt.Errorf("%w (%s ring of %d): use 1024, say", ErrRingSize, r.name, r.size)
		}
	}
	if c.FillDepth < 0 || c.FillDepth > c.NumFill {
		return fmt.Errorf("%w (%d): the Fill ring has %d entries", ErrFillDepth, c.FillDepth, c.NumFill)
	}
	if c.FillDepth > len(u.free) {
		return fmt.Errorf("%w (%d): only %d frames are free: use a larger UMEM", ErrFillDepth, c.FillDepth, len(u.free))
	}
	if c.Mode > Copy {
		return fmt.Errorf("%w (%v): use auto, zerocopy or copy", ErrMode, c.Mode)
	}
	if c.Mode != Auto && u.granted() != Auto && c.Mode != u.granted() {
		return fmt.Errorf("%w (%v): the UMEM is in mode %v: use another UMEM", ErrMode, c.Mode, u.granted())
	}
	return nil
}

// maxRing keeps a full ring apart from an empty one in 32-bit indices.
const maxRing = 1 << 31

// granted returns the mode of the UMEM's living sockets, Auto when there are none.
func (u *UMEM) granted() Mode {
	for _, s := range u.sockets {
		if s != nil && s.state != StateGone {
			return s.mode
		}
	}
	return Auto
}

// takeSlot gives s the lowest free slot, and with it the marks of its frames.
func (u *UMEM) takeSlot(s *Socket) error {
	slot := slices.Index(u.sockets, nil)
	if slot < 0 {
		slot = len(u.sockets)
		if slot == maxSlots {
			return fmt.Errorf("%w (%d sockets): use another UMEM", ErrInUse, slot)
		}
		u.sockets = append(u.sockets, nil)
	}
	u.sockets[slot] = s
	s.slot = slot
	s.receiveMark = lent(ownerReceive, slot)
	s.transmitMark = lent(ownerTransmit, slot)
	return nil
}

// open makes, fills and binds the socket: on a living sibling's registration of the
// UMEM, or, when there is none left, on its own.
func (s *Socket) open(c SocketConfig) error {
	for _, sibling := range s.umem.sockets {
		if sibling == nil || sibling == s || sibling.state == StateGone {
			continue
		}
		err := s.openOn(c, Binding{
			Ifindex:  s.ifindex,
			Queue:    s.queue,
			Flags:    unix.XDP_SHARED_UMEM, // mode and need-wakeup come from the first socket: more flags are EINVAL
			SharedFD: sibling.fd,
		})
		if !errors.Is(err, unix.EBADF) {
			return err
		}
		// The sibling lost its device and nobody has noticed yet: the kernel unbound it.
		sibling.state = StateGone
	}
	flags := uint16(unix.XDP_USE_NEED_WAKEUP)
	switch c.Mode {
	case ZeroCopy:
		flags |= unix.XDP_ZEROCOPY
	case Copy:
		flags |= unix.XDP_COPY
	}
	return s.openOn(c, Binding{Ifindex: s.ifindex, Queue: s.queue, Flags: flags})
}

// openOn makes the connection, fills Fill, and binds. When it fails the connection
// is closed and all frames are free again.
func (s *Socket) openOn(c SocketConfig, b Binding) error {
	u := s.umem
	spec := SocketSpec{
		FrameSize:     u.FrameSize(),
		NumFill:       c.NumFill,
		NumCompletion: c.NumCompletion,
		NumRX:         c.NumRX,
		NumTX:         c.NumTX,
	}
	if b.Flags&unix.XDP_SHARED_UMEM == 0 {
		spec.Area = u.area
	}
	conn, err := u.kernel.Socket(spec)
	if err != nil {
		return s.errorf("open", err)
	}
	s.attach(conn)
	// Before bind: a driver in zero-copy mode takes what it finds in Fill then, and a
	// queue that starts with none drops.
	s.lend(s.fillDepth)
	if err := s.bind(b, c.BindTimeout); err != nil {
		return errors.Join(s.errorf("bind", err), s.detach())
	}
	if err := s.checkMode(c.Mode); err != nil {
		return errors.Join(s.errorf("bind", err), s.detach())
	}
	return nil
}

// attach takes over a connection that is not bound yet.
func (s *Socket) attach(conn Conn) {
	s.conn = conn
	s.fd = conn.FD()
	s.state = StateBound
	s.txBudget = conn.TXBudget()
	s.useRings(conn.Rings())
	// Without a budget of its own the kernel sends 32 a call. One call more than a full
	// ring takes, because a signal may cost one, and because kernels before 6.17 publish
	// how far they came only when called again.
	perCall := max(s.txBudget, 32)
	s.maxKicks = (s.numTX+perCall-1)/perCall + 1
}

// useRings takes our side of all rings.
func (s *Socket) useRings(r Rings) {
	s.fill = NewProducer(r.Fill)
	s.completion = NewConsumer(r.Completion)
	s.rx = NewConsumer(r.RX)
	if s.numTX > 0 {
		s.tx = NewProducer(r.TX)
	}
}

// bind binds the connection, trying again while the queue is busy.
func (s *Socket) bind(b Binding, timeout time.Duration) error {
	if timeout == 0 {
		timeout = defaultBindTimeout
	}
	deadline := time.Now().Add(timeout)
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		err := s.conn.Bind(b)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EBUSY) && time.Now().Before(deadline):
			time.Sleep(pause)
			continue
		}
		return explainBind(err, b, timeout)
	}
}

// explainBind adds detail and remedy to what bind says.
func explainBind(err error, b Binding, timeout time.Duration) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EBUSY):
		return fmt.Errorf("%w (tried for %v%s): stop its holder, or use another queue", err, timeout, holders())
	case errors.Is(err, unix.EINVAL):
		return fmt.Errorf("%w: the interface may not have queue %d", err, b.Queue)
	case errors.Is(err, unix.EOPNOTSUPP) && b.Flags&unix.XDP_SHARED_UMEM != 0:
		return fmt.Errorf("%w: the driver cannot have the mode of the UMEM it is to share: use another UMEM", err)
	case errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("%w: the driver cannot do zero copy on this queue: use mode copy or auto", err)
	}
	return err
}

// checkMode learns what was granted, and refuses what was not asked for.
func (s *Socket) checkMode(asked Mode) error {
	zeroCopy, err := s.conn.ZeroCopy()
	if err != nil {
		return fmt.Errorf("read XDP_OPTIONS: %w", err)
	}
	s.mode = Copy
	if zeroCopy {
		s.mode = ZeroCopy
	}
	if asked != Auto && asked != s.mode {
		return fmt.Errorf("%w (%v): the kernel granted %v", ErrMode, asked, s.mode)
	}
	return nil
}

// errorf names the operation and the socket in front of a cause.
func (s *Socket) errorf(operation string, err error) error {
	return fmt.Errorf("%s %s: %w", operation, s.object(), err)
}

func (s *Socket) object() string { return fmt.Sprintf("%s queue %d", s.name, s.queue) }
