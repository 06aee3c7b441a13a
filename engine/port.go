package engine

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"

	"weir/internal/host"
	"weir/queues"
	"weir/xdpprog"
)

// port is one interface weir forwards on: its program, its sockets, and what the kernel said of it at the start.
type port struct {
	index   int
	config  PortConfig
	ifindex int
	driver  string
	program *xdpprog.Port
	queues  queueCount
	// mode is what was granted: attachment and socket mode together.
	mode    Mode
	sockets []*queues.Socket
	// before are the device's counters when weir started; its drops since then are part of every balance.
	before host.Counters
}

// partialChecksumDrivers deliver segments from a local stack whose checksum the device was meant to finish.
var partialChecksumDrivers = map[string]bool{"veth": true, "tun": true, "virtio_net": true}

func (p *port) partialChecksums() bool { return partialChecksumDrivers[p.driver] }

// inspectPort says why weir cannot or should not forward on an interface, without touching it.
func inspectPort(c PortConfig, u UMEMConfig) (*net.Interface, error) {
	if err := host.CheckPort(c.Name); err != nil && (!errors.Is(err, host.ErrManagement) || !c.AllowManagement) {
		return nil, err
	}
	link, err := net.InterfaceByName(c.Name)
	if err != nil {
		return nil, fmt.Errorf("port %s: %w: name an interface of this network namespace (ip link)", c.Name, err)
	}
	if len(link.HardwareAddr) != 6 {
		return nil, fmt.Errorf("port %s: no Ethernet address: weir forwards Ethernet frames only; name an Ethernet interface", c.Name)
	}
	if frame := link.MTU + ethHeaderLen; frame > u.maxFrame() {
		remedy := "lower the MTU"
		if larger := (UMEMConfig{FrameSize: 4096}); frame <= larger.maxFrame() {
			remedy = "set umem.frame_size: 4096 or lower the MTU"
		}
		return nil, fmt.Errorf("port %s: MTU %d: a frame of %d bytes does not fit the %d bytes of a packet buffer (umem.frame_size %d): %s",
			c.Name, link.MTU, frame, u.maxFrame(), u.FrameSize, remedy)
	}
	return link, xdpprog.CheckFree(c.Name, link.Index)
}

// newPort inspects the interface and leaves it untouched.
func newPort(index int, c PortConfig, u UMEMConfig) (*port, error) {
	link, err := inspectPort(c, u)
	if err != nil {
		return nil, err
	}
	driver, err := host.Driver(c.Name)
	if err != nil {
		return nil, err
	}
	before, err := host.LinkCounters(link.Index)
	if err != nil {
		return nil, err
	}
	return &port{index: index, config: c, ifindex: link.Index, driver: driver, before: before}, nil
}

// attach puts the program on the interface. The kernel still gets every packet, since the program knows no socket yet.
func (p *port) attach(mac [6]byte, local []netip.Prefix, maxFrame int) (err error) {
	p.program, err = xdpprog.Attach(xdpprog.PortConfig{
		Interface: p.config.Name, Ifindex: p.ifindex, Mode: p.config.Mode.attach(), MAC: mac, Local: local, MaxQueues: maxQueues,
		MaxLen: maxFrame,
	})
	if err != nil {
		return err
	}
	// The driver may have changed its queues on attach, so they are counted only now.
	p.queues.rx, p.queues.tx, err = host.Queues(p.config.Name)
	return err
}

// openSocket binds a socket to queue q of the port in the UMEM group that fits, and decides the port's mode on its first queue: in
// auto, zero-copy is asked for as a requirement first, so that what was granted is known and never a guess.
func (p *port) openSocket(g *umemGroups, c queues.SocketConfig) (*queues.Socket, *queues.UMEM, error) {
	c.Interface, c.Ifindex = p.config.Name, p.ifindex
	if p.program.Mode() == xdpprog.AttachGeneric {
		p.mode = ModeGeneric
	} else if p.mode == ModeAuto && p.config.Mode != ModeAuto {
		p.mode = p.config.Mode
	}
	if p.mode == ModeAuto || p.mode == ModeZeroCopy {
		c.Mode = queues.ZeroCopy
		s, u, err := g.open(c)
		if err == nil {
			p.mode = ModeZeroCopy
			return p.adopt(s), u, nil
		}
		if p.mode == ModeZeroCopy || !errors.Is(err, unix.EOPNOTSUPP) {
			return nil, nil, err
		}
		p.mode = ModeCopy
	}
	c.Mode = queues.Copy
	s, u, err := g.open(c)
	if err != nil {
		return nil, nil, err
	}
	return p.adopt(s), u, nil
}

func (p *port) adopt(s *queues.Socket) *queues.Socket {
	p.sockets = append(p.sockets, s)
	return s
}

// detach gives the traffic back to the kernel. It comes before closeSockets: the other way round, packets would be redirected to
// sockets that are gone. The program's counters remain readable until closeSockets.
func (p *port) detach() error {
	if p.program == nil {
		return nil
	}
	return p.program.Detach()
}

// closeSockets releases the sockets and the program's maps.
func (p *port) closeSockets() error {
	var err error
	for _, s := range p.sockets {
		err = errors.Join(err, s.Close())
	}
	if p.program != nil {
		err = errors.Join(err, p.program.Close())
	}
	return err
}

// umemGroups are a worker's UMEMs: zero-copy and copy ports cannot share one. Each is made when the first socket needs it.
type umemGroups struct {
	config         queues.UMEMConfig
	copy, zerocopy *queues.UMEM
}

func (g *umemGroups) open(c queues.SocketConfig) (*queues.Socket, *queues.UMEM, error) {
	u := &g.copy
	if c.Mode == queues.ZeroCopy {
		u = &g.zerocopy
	}
	made := *u == nil
	if made {
		if err := host.LockedMemory(uint64(g.config.NumFrames) * uint64(g.config.FrameSize)); err != nil {
			return nil, nil, err
		}
		fresh, err := queues.NewUMEM(g.config)
		if err != nil {
			return nil, nil, err
		}
		*u = fresh
	}
	s, err := (*u).Open(c)
	if err != nil {
		if made {
			err = errors.Join(err, (*u).Close())
			*u = nil
		}
		return nil, nil, err
	}
	return s, *u, nil
}

// all lists the UMEMs that exist.
func (g *umemGroups) all() []*queues.UMEM {
	var list []*queues.UMEM
	for _, u := range []*queues.UMEM{g.copy, g.zerocopy} {
		if u != nil {
			list = append(list, u)
		}
	}
	return list
}

func (g *umemGroups) close() error {
	var err error
	for _, u := range g.all() {
		err = errors.Join(err, u.Close())
	}
	return err
}
