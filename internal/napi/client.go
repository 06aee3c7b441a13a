package napi

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Client asks and sets the NAPIs of one network namespace over generic netlink (family netdev). One goroutine at a time. The kernel
// answers within the system call that asks, so nothing here waits for anything but the kernel's own locks.
type Client struct {
	fd     int
	family uint16
	canSet bool
	seq    uint32
	buf    []byte // what is received: the kernel fills at most half of it at once
	// masking is the request of SetMasking; its three values and its sequence number are written into it each time.
	masking []byte
}

// Where the values of the message of SetMasking are.
const (
	maskingID      = sizeofHeaders + unix.SizeofNlAttr
	maskingDefer   = maskingID + 4 + unix.SizeofNlAttr
	maskingTimeout = maskingDefer + 4 + unix.SizeofNlAttr
)

// Dial opens a socket in the network namespace of the calling thread; it stays there. The error wraps ErrUnsupported when the kernel has
// no netdev family (before Linux 6.3). The caller closes the client.
func Dial() (*Client, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_GENERIC)
	if err != nil {
		return nil, fmt.Errorf("open netdev netlink socket: %w", err)
	}
	c := &Client{fd: fd, buf: make([]byte, 1<<16)}
	// Connected to the kernel, it gets nothing from other processes.
	if err := unix.Connect(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		c.Close()
		return nil, fmt.Errorf("connect netdev netlink socket: %w", err)
	}
	// Short acknowledgements, and the kernel's reason in words with an error. Both are comforts.
	_ = unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_CAP_ACK, 1)
	_ = unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_EXT_ACK, 1)
	if err := c.findFamily(); err != nil {
		c.Close()
		return nil, fmt.Errorf("find netdev netlink family: %w", err)
	}
	b := request(c.family, unix.NLM_F_ACK, cmdNAPISet)
	b = appendUint32(b, attrNAPIID, 0)
	b = appendUint32(b, attrNAPIDeferHardIRQs, 0)
	c.masking = finish(appendUint64(b, attrNAPIGROFlush, 0))
	return c, nil
}

// findFamily asks the kernel for the number of the family and for its commands.
func (c *Client) findFamily() error {
	b := request(unix.GENL_ID_CTRL, unix.NLM_F_ACK, unix.CTRL_CMD_GETFAMILY)
	b = finish(appendAttr(b, unix.CTRL_ATTR_FAMILY_NAME, append([]byte(familyName), 0)))
	err := c.exchange(b, func(attrs []byte) {
		for kind, value, rest, ok := nextAttr(attrs); ok; kind, value, rest, ok = nextAttr(rest) {
			switch kind {
			case unix.CTRL_ATTR_FAMILY_ID:
				c.family = uint16(number(value))
			case unix.CTRL_ATTR_OPS:
				c.canSet = c.canSet || hasCommand(value, cmdNAPISet)
			}
		}
	})
	switch {
	case errors.Is(err, unix.ENOENT):
		return fmt.Errorf("%w: needs Linux 6.3: %w", ErrUnsupported, err)
	case err == nil && c.family == 0:
		return errors.New("no number in the kernel's answer")
	}
	return err
}

// hasCommand looks for a command in a family's list (CTRL_ATTR_OPS).
func hasCommand(ops []byte, command uint64) bool {
	for _, op, rest, ok := nextAttr(ops); ok; _, op, rest, ok = nextAttr(rest) {
		for kind, value, rest, ok := nextAttr(op); ok; kind, value, rest, ok = nextAttr(rest) {
			if kind == unix.CTRL_ATTR_OP_ID && number(value) == command {
				return true
			}
		}
	}
	return false
}

// Close closes the socket.
func (c *Client) Close() error {
	if c.fd < 0 {
		return nil
	}
	fd := c.fd
	c.fd = -1
	return unix.Close(fd)
}

// CanSet tells whether the kernel has settings of single NAPIs (napi-set, Linux 6.13). Where not, see [Device].
func (c *Client) CanSet() bool { return c.canSet }

// List returns the NAPIs of a device: those of receive queues in the order of the queues, then those of none, in rising order of their
// ids. There are none while the device is down, and none on a veth without GRO and XDP. A NAPI that serves two queues is there twice.
//
// The queues are as the driver tells (queue-get, Linux 6.8). If it tells none, and there are as many NAPIs as receive queues, they are
// taken to be in the same order; in all other cases they are NoQueue.
//
// The error wraps ErrGone when the namespace has no such device, ErrUnsupported when the kernel has no napi-get (before Linux 6.8).
func (c *Client) List(ifindex int) ([]NAPI, error) {
	if ifindex <= 0 || ifindex > math.MaxInt32 {
		return nil, fmt.Errorf("list NAPIs of interface %d: no such number: %w", ifindex, unix.EINVAL)
	}
	var napis []NAPI
	b := request(c.family, unix.NLM_F_DUMP, cmdNAPIGet)
	b = finish(appendUint32(b, attrNAPIIfindex, uint32(ifindex)))
	err := c.exchange(b, func(attrs []byte) { napis = append(napis, parseNAPI(attrs)) })
	if err != nil {
		return nil, fmt.Errorf("list NAPIs of interface %d: %w", ifindex, explain(err))
	}
	if len(napis) == 0 {
		return nil, nil
	}
	var queues []rxQueue
	b = request(c.family, unix.NLM_F_DUMP, cmdQueueGet)
	b = finish(appendUint32(b, attrQueueIfindex, uint32(ifindex)))
	err = c.exchange(b, func(attrs []byte) {
		if q, ok := parseQueue(attrs); ok {
			queues = append(queues, q)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("list queues of interface %d: %w", ifindex, explain(err))
	}
	return assign(napis, queues), nil
}

// Get returns one NAPI, without its queue. The error wraps ErrGone when there is none of that id.
func (c *Client) Get(id int) (NAPI, error) {
	if err := checkID(id); err != nil {
		return NAPI{}, fmt.Errorf("get NAPI %d: %w", id, err)
	}
	var n NAPI
	b := request(c.family, unix.NLM_F_ACK, cmdNAPIGet)
	b = finish(appendUint32(b, attrNAPIID, uint32(id)))
	if err := c.exchange(b, func(attrs []byte) { n = parseNAPI(attrs) }); err != nil {
		return NAPI{}, fmt.Errorf("get NAPI %d: %w", id, explain(err))
	}
	if n.ID != id {
		return NAPI{}, fmt.Errorf("get NAPI %d: the kernel's answer is of NAPI %d", id, n.ID)
	}
	return n, nil
}

// parseNAPI reads the attributes of one NAPI.
func parseNAPI(attrs []byte) NAPI {
	n := NAPI{Queue: NoQueue}
	for kind, value, rest, ok := nextAttr(attrs); ok; kind, value, rest, ok = nextAttr(rest) {
		v := number(value)
		switch kind {
		case attrNAPIID:
			n.ID = int(v)
		case attrNAPIIRQ:
			n.IRQ = int(v)
		case attrNAPIPID:
			n.PID = int(v)
		case attrNAPIDeferHardIRQs:
			n.DeferHardIRQs = uint32(v)
		case attrNAPIGROFlush:
			n.GROFlush = duration(v)
		case attrNAPIIRQSuspend:
			n.IRQSuspend = duration(v)
		case attrNAPIThreaded:
			n.Threaded = v != 0
		}
	}
	return n
}

// duration is a number of nanoseconds, at most the longest duration.
func duration(ns uint64) time.Duration { return time.Duration(min(ns, math.MaxInt64)) }

// rxQueue is a receive queue and its NAPI's id, 0 if the driver does not tell.
type rxQueue struct{ id, napi int }

// parseQueue reads the attributes of one queue; ok is false for a transmit queue.
func parseQueue(attrs []byte) (q rxQueue, ok bool) {
	kindOf := uint64(math.MaxUint64)
	for kind, value, rest, more := nextAttr(attrs); more; kind, value, rest, more = nextAttr(rest) {
		switch kind {
		case attrQueueID:
			q.id = int(number(value))
		case attrQueueType:
			kindOf = number(value)
		case attrQueueNAPIID:
			q.napi = int(number(value))
		}
	}
	return q, kindOf == queueTypeRX
}

// assign gives NAPIs their queues and puts them in the order that List promises.
func assign(napis []NAPI, queues []rxQueue) []NAPI {
	slices.SortFunc(napis, func(a, b NAPI) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(queues, func(a, b rxQueue) int { return cmp.Compare(a.id, b.id) })
	if !slices.ContainsFunc(queues, func(q rxQueue) bool { return q.napi != 0 }) {
		if len(queues) == len(napis) {
			for i := range napis {
				napis[i].Queue = queues[i].id
			}
		}
		return napis
	}
	ordered := make([]NAPI, 0, len(napis))
	serves := map[int]bool{}
	for _, q := range queues {
		if i := slices.IndexFunc(napis, func(n NAPI) bool { return n.ID == q.napi }); q.napi != 0 && i >= 0 {
			n := napis[i]
			n.Queue, n.Mapped = q.id, true
			ordered = append(ordered, n)
			serves[n.ID] = true
		}
	}
	for _, n := range napis {
		if !serves[n.ID] {
			ordered = append(ordered, n)
		}
	}
	return ordered
}

// SetMasking sets what keeps a NAPI's interrupt masked: how many empty polls, and after how long without a poll the kernel polls by
// itself. Both are needed for busy polling to keep the interrupt away; 0 and 0 is the kernel's default. It allocates nothing unless it
// fails, and costs one send and one receive: workers call it when they take and when they release a queue.
//
// The error wraps ErrGone when there is no NAPI of that id, ErrUnsupported when the kernel has no napi-set (see [Device]).
func (c *Client) SetMasking(id int, deferHardIRQs uint32, groFlush time.Duration) error {
	if err := checkID(id); err != nil || groFlush < 0 {
		return fmt.Errorf("set masking of NAPI %d to %d polls, %v: %w", id, deferHardIRQs, groFlush, unix.EINVAL)
	}
	m := c.masking
	binary.NativeEndian.PutUint32(m[maskingID:], uint32(id))
	binary.NativeEndian.PutUint32(m[maskingDefer:], deferHardIRQs)
	binary.NativeEndian.PutUint64(m[maskingTimeout:], uint64(groFlush))
	if err := c.exchange(m, nil); err != nil {
		return fmt.Errorf("set masking of NAPI %d to %d polls, %v: %w", id, deferHardIRQs, groFlush, explain(err))
	}
	return nil
}

// SetThreaded gives a NAPI a kernel thread of its own or takes it away. The thread is a new one each time, of the default rank and on
// any CPU; Get tells its PID. The error wraps ErrGone and ErrUnsupported as that of SetMasking does; this needs Linux 6.17.
func (c *Client) SetThreaded(id int, on bool) error {
	v := uint32(0)
	if on {
		v = 1
	}
	err := checkID(id)
	if err == nil {
		b := request(c.family, unix.NLM_F_ACK, cmdNAPISet)
		b = appendUint32(b, attrNAPIID, uint32(id))
		err = c.exchange(finish(appendUint32(b, attrNAPIThreaded, v)), nil)
		// Kernels that know napi-set but not this attribute.
		if errors.Is(err, unix.EINVAL) {
			err = fmt.Errorf("%w: needs Linux 6.17, or set threaded of the whole device: %w", ErrUnsupported, err)
		}
	}
	if err != nil {
		return fmt.Errorf("set threaded %d of NAPI %d: %w", v, id, explain(err))
	}
	return nil
}

// Set brings a NAPI to these settings, changing only what differs.
func (c *Client) Set(id int, s Settings) error {
	now, err := c.Get(id)
	if err != nil {
		return err
	}
	if s.Threaded != now.Threaded {
		if err := c.SetThreaded(id, s.Threaded); err != nil {
			return err
		}
	}
	if s.IRQSuspend != now.IRQSuspend {
		b := request(c.family, unix.NLM_F_ACK, cmdNAPISet)
		b = appendUint32(b, attrNAPIID, uint32(id))
		if err := c.exchange(finish(appendUint64(b, attrNAPIIRQSuspend, uint64(s.IRQSuspend))), nil); err != nil {
			return fmt.Errorf("set irq-suspend-timeout of NAPI %d to %v: %w", id, s.IRQSuspend, explain(err))
		}
	}
	if s.DeferHardIRQs == now.DeferHardIRQs && s.GROFlush == now.GROFlush {
		return nil
	}
	return c.SetMasking(id, s.DeferHardIRQs, s.GROFlush)
}

// checkID refuses what cannot be a NAPI's id, 0 among it: the kernel's "not known".
func checkID(id int) error {
	if id <= 0 || id > math.MaxUint32 {
		return unix.EINVAL
	}
	return nil
}

// explain sorts the kernel's errors into those of this package, and adds the remedy.
func explain(err error) error {
	switch {
	case errors.Is(err, ErrUnsupported):
		return err
	case errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("%w: needs a newer kernel: %w", ErrUnsupported, err)
	case errors.Is(err, unix.ENOENT):
		return fmt.Errorf("%w: the device was down or changed its queues: list its NAPIs again: %w", ErrGone, err)
	case errors.Is(err, unix.ENODEV):
		return fmt.Errorf("%w: not in this network namespace: %w", ErrGone, err)
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return fmt.Errorf("%w: needs CAP_NET_ADMIN in the user namespace that owns this network namespace", err)
	}
	return err
}

// kernelError is an errno with the kernel's own words.
type kernelError struct {
	errno unix.Errno
	words string
}

func (e *kernelError) Error() string {
	return fmt.Sprintf("%v (%s)", e.errno, e.words)
}

// Unwrap returns the errno.
func (e *kernelError) Unwrap() error { return e.errno }

// exchange sends a request and calls f (nil: nobody) with the attributes of each answer, until the kernel says that there are no more.
// Answers are read to the end whatever they are, or a dump would go on and block the next.
func (c *Client) exchange(b []byte, f func(attrs []byte)) error {
	c.seq++
	binary.NativeEndian.PutUint32(b[8:], c.seq)
	for {
		_, err := unix.Write(c.fd, b)
		if err == nil {
			break
		}
		if err != unix.EINTR {
			return fmt.Errorf("send to the kernel: %w", err)
		}
	}
	interrupted := false
	for {
		n, err := unix.Read(c.fd, c.buf)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return fmt.Errorf("receive the kernel's answer: %w", err)
		}
		for m, rest, ok := nextAnswer(c.buf[:n]); ok; m, rest, ok = nextAnswer(rest) {
			if m.seq != c.seq {
				continue // of a request that was given up
			}
			interrupted = interrupted || m.flags&unix.NLM_F_DUMP_INTR != 0
			switch {
			case m.kind == unix.NLMSG_ERROR || m.kind == unix.NLMSG_DONE:
				if err := m.err(); err != nil {
					return err
				}
				if interrupted {
					return errInterrupted
				}
				return nil
			case m.kind == unix.NLMSG_NOOP || f == nil || len(m.body) < sizeofGenlMsghdr:
			default:
				f(m.body[sizeofGenlMsghdr:])
			}
		}
	}
}

var errInterrupted = errors.New("the kernel changed its list while it was read: ask again")

// err is the error that ends an exchange, nil for success.
func (m answer) err() error {
	if len(m.body) < 4 {
		return nil
	}
	code := int32(binary.NativeEndian.Uint32(m.body))
	if code == 0 {
		return nil
	}
	errno := unix.Errno(-code)
	if m.flags&unix.NLM_F_ACK_TLVS == 0 {
		return errno
	}
	// NLMSG_ERROR: errno, the header of our request (no more of it: NETLINK_CAP_ACK), attributes. NLMSG_DONE: errno, attributes.
	skip := 4
	if m.kind == unix.NLMSG_ERROR {
		skip += unix.SizeofNlMsghdr
	}
	if len(m.body) < skip {
		return errno
	}
	for kind, value, rest, ok := nextAttr(m.body[skip:]); ok; kind, value, rest, ok = nextAttr(rest) {
		if kind == unix.NLMSGERR_ATTR_MSG {
			words, _, _ := strings.Cut(string(value), "\x00")
			return &kernelError{errno: errno, words: words}
		}
	}
	return errno
}
