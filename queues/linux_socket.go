package queues

import (
	"errors"
	"fmt"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// linuxSocket is the Conn in use.
type linuxSocket struct {
	fd       int
	mappings [][]byte // of the rings
	rings    Rings
	txBudget int

	bound    Binding
	released *probe // in zero-copy mode
}

// Socket implements Kernel.
func (linux) Socket(spec SocketSpec) (_ Conn, err error) {
	fd, err := unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.EPERM):
		return nil, fmt.Errorf("socket AF_XDP: %w: CAP_NET_RAW is needed", err)
	case errors.Is(err, unix.EAFNOSUPPORT):
		return nil, fmt.Errorf("socket AF_XDP: %w: the kernel needs CONFIG_XDP_SOCKETS", err)
	case err != nil:
		return nil, fmt.Errorf("socket AF_XDP: %w", err)
	}
	s := &linuxSocket{fd: fd}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.release())
		}
	}()
	if spec.Area != nil {
		if err := registerUMEM(fd, spec.Area, spec.FrameSize); err != nil {
			if errors.Is(err, unix.ENOBUFS) {
				return nil, fmt.Errorf("register UMEM: %w (locked-memory limit): raise RLIMIT_MEMLOCK by %d bytes, or grant CAP_IPC_LOCK", err, len(spec.Area))
			}
			return nil, fmt.Errorf("register UMEM: %w", err)
		}
	}
	if err := s.makeRings(spec); err != nil {
		return nil, err
	}
	s.setTXBudget(spec.NumTX)
	return s, nil
}

// makeRings makes and maps the rings.
func (s *linuxSocket) makeRings(spec SocketSpec) error {
	for _, r := range []struct {
		name         string
		option, size int
	}{
		{"XDP_UMEM_FILL_RING", unix.XDP_UMEM_FILL_RING, spec.NumFill},
		{"XDP_UMEM_COMPLETION_RING", unix.XDP_UMEM_COMPLETION_RING, spec.NumCompletion},
		{"XDP_RX_RING", unix.XDP_RX_RING, spec.NumRX},
		{"XDP_TX_RING", unix.XDP_TX_RING, spec.NumTX},
	} {
		if r.size == 0 {
			continue
		}
		if err := unix.SetsockoptInt(s.fd, unix.SOL_XDP, r.option, r.size); err != nil {
			return fmt.Errorf("set %s to %d entries: %w", r.name, r.size, err)
		}
	}
	offsets, err := mmapOffsets(s.fd)
	if err != nil {
		return fmt.Errorf("get XDP_MMAP_OFFSETS: %w", err)
	}
	if s.rings.Fill, err = mapRing[uint64](s, unix.XDP_UMEM_PGOFF_FILL_RING, offsets.Fr, spec.NumFill); err != nil {
		return err
	}
	if s.rings.Completion, err = mapRing[uint64](s, unix.XDP_UMEM_PGOFF_COMPLETION_RING, offsets.Cr, spec.NumCompletion); err != nil {
		return err
	}
	if s.rings.RX, err = mapRing[Desc](s, unix.XDP_PGOFF_RX_RING, offsets.Rx, spec.NumRX); err != nil {
		return err
	}
	if spec.NumTX == 0 {
		return nil
	}
	s.rings.TX, err = mapRing[Desc](s, unix.XDP_PGOFF_TX_RING, offsets.Tx, spec.NumTX)
	return err
}

// mapRing maps one ring. The mapping is the socket's, to be released with it.
func mapRing[T any](s *linuxSocket, pageOffset int64, o unix.XDPRingOffset, size int) (Ring[T], error) {
	length := o.Desc + uint64(size)*sizeOf[T]()
	m, err := unix.Mmap(s.fd, pageOffset, int(length), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return Ring[T]{}, fmt.Errorf("map ring at %#x: %w", pageOffset, err)
	}
	s.mappings = append(s.mappings, m)
	return Ring[T]{
		Producer: at[atomic.Uint32](m, o.Producer),
		Consumer: at[atomic.Uint32](m, o.Consumer),
		Flags:    at[atomic.Uint32](m, o.Flags),
		Entries:  sliceAt[T](m, o.Desc, size),
	}, nil
}

// setTXBudget asks that one sendto may empty the whole TX ring. Without it (before
// Linux 6.17) the kernel stops after 32 packets with EAGAIN, and Kick calls again.
func (s *linuxSocket) setTXBudget(numTX int) {
	const least = 32 // the kernel's own default, and the smallest value it takes
	if numTX < least {
		return
	}
	if unix.SetsockoptInt(s.fd, unix.SOL_XDP, unix.XDP_MAX_TX_SKB_BUDGET, numTX) == nil {
		s.txBudget = numTX
	}
}

// FD implements Conn.
func (s *linuxSocket) FD() int { return s.fd }

// Rings implements Conn.
func (s *linuxSocket) Rings() Rings { return s.rings }

// TXBudget implements Conn.
func (s *linuxSocket) TXBudget() int { return s.txBudget }

// Bind implements Conn.
func (s *linuxSocket) Bind(b Binding) error {
	s.bound = b
	return unix.Bind(s.fd, &unix.SockaddrXDP{
		Flags:        b.Flags,
		Ifindex:      uint32(b.Ifindex),
		QueueID:      uint32(b.Queue),
		SharedUmemFD: uint32(b.SharedFD),
	})
}

// ZeroCopy implements Conn.
func (s *linuxSocket) ZeroCopy() (bool, error) {
	options, err := unix.GetsockoptInt(s.fd, unix.SOL_XDP, unix.XDP_OPTIONS)
	if err != nil || options&unix.XDP_OPTIONS_ZEROCOPY == 0 {
		return false, err
	}
	if s.released == nil {
		// Now, because a socket belongs to the namespace of the thread that makes it, and
		// Close may run on another.
		s.released, err = newProbe(s.bound.Ifindex, s.bound.Queue)
	}
	return true, err
}

// Statistics implements Conn.
func (s *linuxSocket) Statistics() (Statistics, error) {
	st, err := statistics(s.fd)
	return Statistics{
		RXDropped:            st.Rx_dropped,
		RXInvalidDescs:       st.Rx_invalid_descs,
		TXInvalidDescs:       st.Tx_invalid_descs,
		RXRingFull:           st.Rx_ring_full,
		RXFillRingEmptyDescs: st.Rx_fill_ring_empty_descs,
		TXRingEmptyDescs:     st.Tx_ring_empty_descs,
	}, err
}

// TakeError implements Conn.
func (s *linuxSocket) TakeError() error {
	errno, err := unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err != nil {
		return err
	}
	if errno != 0 {
		return unix.Errno(errno)
	}
	return nil
}

// Kick implements Conn. It is a raw system call: the scheduler is not told, so it
// does not take the processor away from the goroutine and hand it to another thread,
// which would cost more than the call and let other goroutines in on a pinned
// worker. That is allowed because the call does not block (MSG_DONTWAIT) and ends
// after at most a TX ring of packets.
func (s *linuxSocket) Kick() unix.Errno {
	_, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(s.fd), 0, 0, unix.MSG_DONTWAIT, 0, 0)
	return errno
}

// Wake implements Conn, as raw as Kick for the same reasons.
func (s *linuxSocket) Wake() unix.Errno {
	_, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(s.fd), 0, 0, unix.MSG_DONTWAIT, 0, 0)
	return errno
}

// Close implements Conn. In copy mode the kernel is done with the UMEM when close
// returns. In zero-copy mode the driver stops its queue later, and until then the
// device may write to the frames.
func (s *linuxSocket) Close() error {
	if err := s.release(); err != nil {
		return err
	}
	if s.released == nil {
		return nil
	}
	if err := s.released.wait(defaultBindTimeout); err != nil {
		return err
	}
	return s.released.close()
}

// release unmaps the rings and closes the descriptor.
func (s *linuxSocket) release() error {
	var errs []error
	for _, m := range s.mappings {
		errs = append(errs, unix.Munmap(m))
	}
	s.mappings = nil
	if s.fd >= 0 {
		errs = append(errs, unix.Close(s.fd))
		s.fd = -1
	}
	return errors.Join(errs...)
}
