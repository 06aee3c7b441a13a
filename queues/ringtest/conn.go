package ringtest

import (
	"slices"

	"golang.org/x/sys/unix"

	"weir/queues"
)

// conn is the socket under test's way into its Port: the system calls.
type conn struct{ port *Port }

func (c conn) FD() int             { return c.port.fd }
func (c conn) Rings() queues.Rings { return c.port.rings }
func (c conn) TXBudget() int       { return c.port.txBudget }
func (c conn) Kick() unix.Errno    { return c.port.kick() }
func (c conn) Wake() unix.Errno    { return c.port.wake() }
func (c conn) ZeroCopy() (bool, error) {
	c.port.kernel.mu.Lock()
	defer c.port.kernel.mu.Unlock()
	return c.port.kernel.zeroCopy, nil
}

// Bind follows xsk_bind in net/xdp/xsk.c.
func (c conn) Bind(b queues.Binding) error {
	p, k := c.port, c.port.kernel
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := next(&k.failBinds); err != nil {
		return err
	}
	if k.removed[b.Ifindex] {
		return unix.ENODEV
	}
	if b.Flags&unix.XDP_SHARED_UMEM != 0 {
		if b.Flags != unix.XDP_SHARED_UMEM || p.registered {
			return unix.EINVAL
		}
		owner := slices.IndexFunc(k.ports, func(o *Port) bool { return o.fd == b.SharedFD && o.bound })
		if owner < 0 {
			return unix.EBADF
		}
		if k.ports[owner].ifindex == b.Ifindex && k.ports[owner].queue == b.Queue {
			return unix.EINVAL // it would have to share the Fill and Completion rings too
		}
	} else {
		if !p.registered {
			return unix.EINVAL
		}
		if b.Flags&unix.XDP_ZEROCOPY != 0 && !k.config.ZeroCopy {
			return unix.EOPNOTSUPP
		}
	}
	if slices.ContainsFunc(k.ports, func(o *Port) bool { return o.bound && o.ifindex == b.Ifindex && o.queue == b.Queue }) {
		return unix.EBUSY
	}
	if b.Flags&unix.XDP_SHARED_UMEM == 0 {
		k.zeroCopy = k.config.ZeroCopy && b.Flags&unix.XDP_COPY == 0 && !k.copyOnly
	}
	p.ifindex, p.queue, p.bound = b.Ifindex, b.Queue, true
	return nil
}

func (c conn) Statistics() (queues.Statistics, error) {
	c.port.kernel.mu.Lock()
	defer c.port.kernel.mu.Unlock()
	return c.port.statistics, nil
}

func (c conn) TakeError() error {
	p := c.port
	p.kernel.mu.Lock()
	defer p.kernel.mu.Unlock()
	err := p.pendingError
	p.pendingError = nil
	return err
}

func (c conn) Close() error {
	p, k := c.port, c.port.kernel
	k.mu.Lock()
	defer k.mu.Unlock()
	p.bound = false
	if err := next(&k.failCloses); err != nil {
		return err
	}
	for _, addr := range p.received {
		k.giveBack(addr)
	}
	for _, d := range p.inFlight {
		k.giveBack(d)
	}
	p.received, p.inFlight = nil, nil
	if i := slices.Index(k.ports, p); i >= 0 {
		k.ports = slices.Delete(k.ports, i, i+1)
	}
	return nil
}
