package napi

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Socket drives a NAPI by preferred busy polling. It is a UDP socket that has carried one datagram through the NAPI, the lesson: the
// kernel notes the NAPI's id in the socket, and from then on a receive call that finds the socket empty polls that NAPI in the caller.
//
//	OpenSocket ─▶ ReadLesson … ok ─▶ SetBudget, SetPrefer(true) ─▶ Drive, Drive … ─▶ SetPrefer(false), masking 0/0, Drive ─▶ block
//	 id 0, hears lessons only         id known, deaf                owned                 released
//
// What the kernel does in one receive call (Linux 6.18: net/ipv4/udp.c __skb_recv_udp, include/net/busy_poll.h, net/core/dev.c):
//
//   - A queued datagram is returned and nothing is polled. So a socket that anybody can fill can be kept from driving; this one takes
//     lessons only, by a filter, and nothing at all once it is taught. The filter runs before the id is noted: a stray datagram of
//     another queue cannot teach a wrong id.
//   - sk_can_busy_loop wants SO_BUSY_POLL > 0 and no signal pending. A call that meets a signal polls nothing and does not say so; Go's
//     runtime preempts by signal, and about one call in 10,000 met one while the collector ran often. The value in µs counts in
//     calls that wait only.
//   - Without waiting there is no loop, but two polls all the same: napi->poll(budget) once by __napi_busy_loop and once more by
//     busy_poll_stop, which hopes that the second finds less than the budget, so that the driver lets its interrupt go. Hence up to
//     twice SO_BUSY_POLL_BUDGET packets per call.
//   - If the second poll used up the budget: with SO_PREFER_BUSY_POLL, defer-hard-irqs ≥ 1 and gro-flush-timeout > 0, busy_poll_stop has
//     armed the NAPI's timer and leaves the NAPI unscheduled and its interrupt masked. Without any one of the three it schedules the
//     NAPI, and softirq takes receive back at once.
//   - If it found less: napi_complete_done takes one off the defer count that busy_poll_stop has loaded, arms the timer and tells the
//     driver to leave the interrupt masked; defer 0 or timeout 0 unmasks.
//   - Nothing masks an interrupt that has not fired: the first packet after taking over an idle NAPI is still received in softirq,
//     and that poll leaves the NAPI masked.
//   - While SO_PREFER_BUSY_POLL holds, every call arms the timer anew. It fires when no call came for the timeout: then softirq polls,
//     and while it finds packets the NAPI stays masked and the timer goes on.
//   - When the NAPI is scheduled elsewhere (softirq or its thread has it) the call polls nothing; with SO_PREFER_BUSY_POLL it leaves a
//     mark that makes the poller give the NAPI up after its next full budget.
//
// Raising SO_BUSY_POLL_BUDGET and setting SO_PREFER_BUSY_POLL need CAP_NET_ADMIN, clearing does not. An unconnected UDP socket keeps the
// first id it notes; ids end when the link goes down or its channels change. Then the socket drives nothing, without an error: open
// a new one.
//
// One goroutine. The id, not the network namespace of the caller, says what is driven.
type Socket struct {
	fd     int
	ifname string
	port   uint16
	id     int
}

// errUntaught is what Drive says before the socket has an id.
var errUntaught = errors.New("drive NAPI: the handle socket has carried no lesson yet: read one first")

const (
	// busyPollUS is SO_BUSY_POLL: not 0. Nothing waits on the socket, so no call ever polls that long.
	busyPollUS = 1

	// maxBudget is what SO_BUSY_POLL_BUDGET has room for (u16).
	maxBudget = 1<<16 - 1

	// maxStray bounds the receive calls of one Drive: a receive buffer of default size holds less than 300 datagrams, and none can come
	// in once the socket is deaf.
	maxStray = 512
)

// OpenSocket opens a handle socket on an interface of the current network namespace: UDP, bound to 0.0.0.0, the interface and a port that
// the kernel chose. It takes datagrams from 0.0.0.0 to 255.255.255.255 only, which need no address on the interface. The caller closes it.
func OpenSocket(ifname string) (*Socket, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_UDP)
	if err != nil {
		return nil, fmt.Errorf("open handle socket on %s: %w", ifname, os.NewSyscallError("socket", err))
	}
	s := &Socket{fd: fd, ifname: ifname}
	if err := s.bind(); err != nil {
		s.Close()
		return nil, fmt.Errorf("open handle socket on %s: %w", ifname, err)
	}
	return s, nil
}

// bind makes a new socket ready. The filter and the device come before the port: until then nothing can be received.
func (s *Socket) bind() error {
	if err := s.hear(lessonsOnly); err != nil {
		return err
	}
	if err := unix.BindToDevice(s.fd, s.ifname); err != nil {
		if errors.Is(err, unix.ENODEV) {
			return fmt.Errorf("set SO_BINDTODEVICE: %w: is the interface in this network namespace?", err)
		}
		return fmt.Errorf("set SO_BINDTODEVICE: %w", err)
	}
	granted, err := unix.GetsockoptString(s.fd, unix.SOL_SOCKET, unix.SO_BINDTODEVICE)
	if err != nil {
		return fmt.Errorf("read SO_BINDTODEVICE: %w", err)
	}
	if granted != s.ifname {
		return fmt.Errorf("set SO_BINDTODEVICE: asked %q, granted %q", s.ifname, granted)
	}
	if err := s.set(unix.SO_BUSY_POLL, busyPollUS, "SO_BUSY_POLL"); err != nil {
		if errors.Is(err, unix.ENOPROTOOPT) {
			return fmt.Errorf("%w: %w: the kernel is built without CONFIG_NET_RX_BUSY_POLL: set poller.ownership off", ErrUnsupported, err)
		}
		return err
	}
	if err := unix.Bind(s.fd, &unix.SockaddrInet4{}); err != nil {
		return os.NewSyscallError("bind", err)
	}
	name, err := unix.Getsockname(s.fd)
	if err != nil {
		return os.NewSyscallError("getsockname", err)
	}
	s.port = uint16(name.(*unix.SockaddrInet4).Port)
	return nil
}

// Port returns the UDP port of the socket, in host byte order: where a lesson must go.
func (s *Socket) Port() uint16 { return s.port }

// FD returns the socket, to wait for a lesson with. It belongs to the Socket and is valid until Close.
func (s *Socket) FD() int { return s.fd }

// ReadLesson takes a lesson off the socket and writes its payload, n bytes, to buf; ok tells that one was there. It does not wait. With
// an error beside ok the payload is right as far as buf held it, but the socket has no id: another lesson may bring one. Once it has
// an id the socket hears nothing more, and whatever lessons were still queued are thrown away.
func (s *Socket) ReadLesson(buf []byte) (n int, ok bool, err error) {
	if s.id != 0 {
		return 0, false, nil
	}
	for {
		n, _, err = unix.Recvfrom(s.fd, buf, unix.MSG_DONTWAIT|unix.MSG_TRUNC)
		if err != unix.EINTR {
			break
		}
	}
	switch {
	case err == unix.EAGAIN:
		return 0, false, nil
	case err != nil:
		return 0, false, fmt.Errorf("read lesson on %s: %w", s.ifname, err)
	}
	return min(n, len(buf)), true, s.learn(n, len(buf))
}

// learn notes the id that a lesson of size bytes brought.
func (s *Socket) learn(size, room int) error {
	id, err := s.ID()
	if err != nil {
		return err
	}
	if id == 0 {
		return fmt.Errorf("read lesson on %s: it came through no NAPI: the interface has none (a veth needs GRO or an XDP program in "+
			"driver mode)", s.ifname)
	}
	if err := s.hear(nothing); err != nil {
		return fmt.Errorf("read lesson on %s: %w", s.ifname, err)
	}
	s.id = id
	if err := s.Drive(); err != nil { // takes off what came in before the socket was deaf
		return err
	}
	if size > room {
		return fmt.Errorf("read lesson on %s: %d bytes, the buffer has %d: the rest is lost", s.ifname, size, room)
	}
	return nil
}

// ID returns the id of the NAPI that the socket drives, 0 before it has carried a lesson (SO_INCOMING_NAPI_ID).
func (s *Socket) ID() (int, error) {
	id, err := unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_INCOMING_NAPI_ID)
	if err != nil {
		return 0, fmt.Errorf("handle socket on %s: read SO_INCOMING_NAPI_ID: %w", s.ifname, err)
	}
	return id, nil
}

// SetPrefer says whether the next Drive leaves the NAPI masked, with its timer armed, or gives it back. It takes effect with that Drive:
// until then the NAPI stays as it is. SO_BUSY_POLL stays on throughout, so that the Drive after SetPrefer(false) polls too. Setting
// needs CAP_NET_ADMIN. No allocation.
func (s *Socket) SetPrefer(on bool) error {
	value := 0
	if on {
		value = 1
	}
	if err := s.set(unix.SO_PREFER_BUSY_POLL, value, "SO_PREFER_BUSY_POLL"); err != nil {
		return s.explain(err)
	}
	return nil
}

// SetBudget sets how many packets one poll may take, at least 1; a Drive polls twice. More than 65535 is cut. It returns what was granted.
// The kernel takes a budget as it is or refuses it; it cannot be read back (no getsockopt of SO_BUSY_POLL_BUDGET up to 6.18), which the
// tests make up for by counting. Raising it needs CAP_NET_ADMIN.
func (s *Socket) SetBudget(packets int) (granted int, err error) {
	if packets < 1 {
		return 0, fmt.Errorf("handle socket on %s: budget of %d packets: at least 1", s.ifname, packets)
	}
	packets = min(packets, maxBudget)
	if err := unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_BUSY_POLL_BUDGET, packets); err != nil {
		return 0, s.explain(fmt.Errorf("set SO_BUSY_POLL_BUDGET to %d: %w", packets, err))
	}
	switch granted, err := unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_BUSY_POLL_BUDGET); {
	case err == nil:
		return granted, nil
	case errors.Is(err, unix.ENOPROTOOPT):
		return packets, nil
	default:
		return 0, s.explain(fmt.Errorf("read SO_BUSY_POLL_BUDGET: %w", err))
	}
}

// Drive polls the NAPI: at most twice the budget, in this thread, without waiting. It is one system call, and allocates nothing.
// That there was nothing to receive is no error; neither is a NAPI that does not exist any more, or that somebody else is polling just now.
func (s *Socket) Drive() error {
	if s.id == 0 {
		return errUntaught
	}
	for range maxStray {
		// Raw: a poll takes no longer than its budget, and handing the scheduler's P over and back costs more than it frees.
		_, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(s.fd), 0, 0, unix.MSG_DONTWAIT, 0, 0)
		switch errno {
		case unix.EAGAIN, unix.EINTR:
			return nil
		case 0: // a datagram was in the way: nothing may have been polled
		default:
			return s.explain(os.NewSyscallError("recvfrom", errno))
		}
	}
	return nil
}

// Close closes the socket. It does not give the NAPI back: a NAPI left masked stays so until its timer has run out.
func (s *Socket) Close() error {
	fd := s.fd
	s.fd, s.id = -1, 0
	return os.NewSyscallError("close", unix.Close(fd))
}

// set sets a number and reads it back.
func (s *Socket) set(option, value int, name string) error {
	if err := unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, option, value); err != nil {
		return fmt.Errorf("set %s to %d: %w", name, value, err)
	}
	granted, err := unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, option)
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	if granted != value {
		return fmt.Errorf("set %s: asked %d, granted %d", name, value, granted)
	}
	return nil
}

func (s *Socket) explain(err error) error {
	if errors.Is(err, unix.EPERM) {
		return fmt.Errorf("handle socket on %s: %w: needs CAP_NET_ADMIN", s.ifname, err)
	}
	return fmt.Errorf("handle socket on %s: %w", s.ifname, err)
}

// lessonsOnly passes datagrams from 0.0.0.0 to 255.255.255.255. A socket filter of UDP starts at the UDP header; negative offsets reach
// the IP header.
var lessonsOnly = []unix.SockFilter{
	{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: netOffset + 12}, // source
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 0, Jf: 3, K: 0},
	{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: netOffset + 16}, // destination
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 0, Jf: 1, K: 0xffffffff},
	{Code: unix.BPF_RET | unix.BPF_K, K: 0xffffffff},
	{Code: unix.BPF_RET | unix.BPF_K, K: 0},
}

const netOffset = 1<<32 - 0x100000 // SKF_NET_OFF, linux/filter.h

// nothing passes no datagram.
var nothing = []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: 0}}

// hear replaces the filter of the socket.
func (s *Socket) hear(filter []unix.SockFilter) error {
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.SetsockoptSockFprog(s.fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &program); err != nil {
		return fmt.Errorf("set SO_ATTACH_FILTER: %w", err)
	}
	return nil
}
