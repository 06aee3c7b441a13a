package fib

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// message is one netlink message (struct nlmsghdr and what follows it). body points into the buffer it was received in.
type message struct {
	kind  uint16
	flags uint16
	seq   uint32
	body  []byte
}

// nextMessage takes the first message off a datagram. ok is false at its end and when what is left is no message.
func nextMessage(b []byte) (m message, rest []byte, ok bool) {
	if len(b) < unix.SizeofNlMsghdr {
		return message{}, nil, false
	}
	length := int(binary.NativeEndian.Uint32(b))
	if length < unix.SizeofNlMsghdr || length > len(b) {
		return message{}, nil, false
	}
	m = message{
		kind:  binary.NativeEndian.Uint16(b[4:]),
		flags: binary.NativeEndian.Uint16(b[6:]),
		seq:   binary.NativeEndian.Uint32(b[8:]),
		body:  b[unix.SizeofNlMsghdr:length],
	}
	return m, b[min(align4(length), len(b)):], true
}

// nextAttr takes the first attribute (struct nlattr) off b. ok is false at the end and when what is left is no attribute.
func nextAttr(b []byte) (kind uint16, value, rest []byte, ok bool) {
	if len(b) < unix.SizeofNlAttr {
		return 0, nil, nil, false
	}
	length := int(binary.NativeEndian.Uint16(b))
	if length < unix.SizeofNlAttr || length > len(b) {
		return 0, nil, nil, false
	}
	kind = binary.NativeEndian.Uint16(b[2:]) & nlaTypeMask
	return kind, b[unix.SizeofNlAttr:length], b[min(align4(length), len(b)):], true
}

const nlaTypeMask = 1<<14 - 1 // NLA_TYPE_MASK of linux/netlink.h

func align4(n int) int { return (n + 3) &^ 3 }

// appendAttr appends an attribute with its padding.
func appendAttr(b []byte, kind uint16, value []byte) []byte {
	b = binary.NativeEndian.AppendUint16(b, uint16(unix.SizeofNlAttr+len(value)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = append(b, value...)
	return append(b, make([]byte, align4(len(value))-len(value))...)
}

// conn is a NETLINK_ROUTE socket in the network namespace of the thread that opened it. One goroutine at a time receives.
type conn struct {
	file   *os.File
	raw    syscall.RawConn
	buf    []byte
	seq    uint32
	closed atomic.Bool
}

var (
	errTruncated   = errors.New("message larger than the buffer")
	errInterrupted = errors.New("dump was interrupted by changes")
)

func openConn() (*conn, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink socket: %w", err)
	}
	c := &conn{
		file: os.NewFile(uintptr(fd), "netlink"),
		buf:  make([]byte, 1<<16), // the kernel's dumps use at most half of it, its notifications a few kilobytes
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		c.Close()
		return nil, fmt.Errorf("bind netlink socket: %w", err)
	}
	if c.raw, err = c.file.SyscallConn(); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Close closes the socket. A receive or send that waits ends with os.ErrClosed, as do all later ones.
func (c *conn) Close() error {
	c.closed.Store(true)
	return c.file.Close()
}

// closing returns os.ErrClosed in place of what package os says of a closed file's RawConn, which has no name.
func (c *conn) closing(err error) error {
	if err != nil && c.closed.Load() {
		return os.ErrClosed
	}
	return err
}

// subscribe makes the kernel send notifications of the groups (RTNLGRP_*).
func (c *conn) subscribe(groups ...int) error {
	return c.control(func(fd int) error {
		for _, g := range groups {
			if err := unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, g); err != nil {
				return fmt.Errorf("subscribe to netlink group %d: %w", g, err)
			}
		}
		return nil
	})
}

// setReceiveBuffer asks for a receive buffer and returns what was granted, both in bytes. Beyond net.core.rmem_max it needs CAP_NET_ADMIN.
func (c *conn) setReceiveBuffer(bytes int) (granted int, err error) {
	err = c.control(func(fd int) (err error) {
		if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, bytes) != nil {
			if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, bytes); err != nil {
				return fmt.Errorf("set receive buffer of %d bytes: %w", bytes, err)
			}
		}
		granted, err = unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
		return err
	})
	return granted / 2, err // the kernel doubles what is asked, for its own bookkeeping (socket(7))
}

func (c *conn) control(f func(fd int) error) error {
	var err error
	if cerr := c.raw.Control(func(fd uintptr) { err = f(int(fd)) }); cerr != nil {
		return cerr
	}
	return err
}

// receive returns the next datagram of the kernel; it is valid until the next call. It waits until deadline (zero: for ever), then
// returns os.ErrDeadlineExceeded. With wait false it returns EAGAIN when there is none.
func (c *conn) receive(wait bool, deadline time.Time) ([]byte, error) {
	if wait {
		if err := c.file.SetReadDeadline(deadline); err != nil {
			return nil, c.closing(err)
		}
	}
	var num, flags int
	var from unix.Sockaddr
	var err error
	for {
		attempt := func(fd uintptr) bool {
			for {
				num, _, flags, from, err = unix.Recvmsg(int(fd), c.buf, nil, unix.MSG_DONTWAIT)
				if err != unix.EINTR {
					return !wait || err != unix.EAGAIN
				}
			}
		}
		rerr := c.read(wait, attempt)
		switch {
		case rerr != nil:
			return nil, rerr
		case err != nil:
			return nil, err
		case flags&unix.MSG_TRUNC != 0:
			return nil, errTruncated
		}
		if sa, ok := from.(*unix.SockaddrNetlink); ok && sa.Pid == 0 {
			return c.buf[:num], nil
		}
		// Not from the kernel: any process may send to us.
	}
}

// read calls attempt until it returns true, waiting for the socket in between, or only once.
func (c *conn) read(wait bool, attempt func(fd uintptr) bool) error {
	if wait {
		return c.closing(c.raw.Read(attempt))
	}
	return c.closing(c.raw.Control(func(fd uintptr) { attempt(fd) }))
}

func (c *conn) send(b []byte) error {
	var err error
	werr := c.raw.Write(func(fd uintptr) bool {
		for {
			if err = unix.Sendto(int(fd), b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != unix.EINTR {
				return err != unix.EAGAIN
			}
		}
	})
	if werr != nil {
		return c.closing(werr)
	}
	return err
}

// request puts a header before a body and returns the message.
func (c *conn) request(kind, flags uint16, body []byte) []byte {
	c.seq++
	b := make([]byte, 0, unix.SizeofNlMsghdr+len(body))
	b = binary.NativeEndian.AppendUint32(b, uint32(unix.SizeofNlMsghdr+len(body)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = binary.NativeEndian.AppendUint16(b, flags|unix.NLM_F_REQUEST)
	b = binary.NativeEndian.AppendUint32(b, c.seq)
	b = binary.NativeEndian.AppendUint32(b, 0)
	return append(b, body...)
}

// exchange sends a request and calls f for each answer until the kernel says that there are no more.
func (c *conn) exchange(kind, flags uint16, body []byte, f func(message)) error {
	if err := c.send(c.request(kind, flags, body)); err != nil {
		return err
	}
	interrupted := false
	for {
		b, err := c.receive(true, time.Time{})
		if err != nil {
			return err
		}
		for m, rest, ok := nextMessage(b); ok; m, rest, ok = nextMessage(rest) {
			if m.seq != c.seq {
				continue
			}
			interrupted = interrupted || m.flags&unix.NLM_F_DUMP_INTR != 0
			switch m.kind {
			case unix.NLMSG_ERROR, unix.NLMSG_DONE:
				if err := answerError(m.body); err != nil {
					return err
				}
				if interrupted {
					return errInterrupted
				}
				return nil
			case unix.NLMSG_NOOP:
			default:
				f(m)
			}
		}
	}
}

// answerError returns the error in an NLMSG_ERROR or NLMSG_DONE, nil for success.
func answerError(body []byte) error {
	if len(body) < 4 {
		return nil
	}
	if code := int32(binary.NativeEndian.Uint32(body)); code != 0 {
		return unix.Errno(-code)
	}
	return nil
}

// dump calls f for each entry of a kernel table. kind is RTM_GET*, headerLen the length of its header, whose first byte is the family.
func (c *conn) dump(kind uint16, family uint8, headerLen int, f func(message)) error {
	body := make([]byte, headerLen)
	body[0] = family
	return c.exchange(kind, unix.NLM_F_DUMP, body, f)
}

// barrier returns when every change of links and addresses that the kernel has begun is finished: the answer to a question about a
// link (here lo, always number 1) needs the lock that such a change holds from its first notification to its last side effect.
func (c *conn) barrier() error {
	body := make([]byte, unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(body[4:], 1)
	return c.exchange(unix.RTM_GETLINK, unix.NLM_F_ACK, body, func(message) {})
}
