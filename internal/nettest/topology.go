package nettest

import (
	"errors"
	"net"
	"net/netip"
)

// Topology is T0: src – rtr – dst, where rtr is what is tested.
//
//	src s0 10.0.1.2  ──  r0 10.0.1.1 rtr r1 10.0.2.1  ──  d0 10.0.2.2 dst
//	2001:db8:1::2        2001:db8:1::1   2001:db8:2::1    2001:db8:2::2
//
// Nobody forwards: rtr has forwarding off. src and dst have default routes to rtr. Neighbours are found by ARP and ND.
type Topology struct {
	Src, Rtr, Dst *NS
}

// Hardware addresses of the links of T0.
var (
	MACr0 = net.HardwareAddr{2, 0, 0, 0, 1, 1}
	MACs0 = net.HardwareAddr{2, 0, 0, 0, 1, 2}
	MACr1 = net.HardwareAddr{2, 0, 0, 0, 2, 1}
	MACd0 = net.HardwareAddr{2, 0, 0, 0, 2, 2}
)

// Addresses of the links of T0.
var (
	AddrR0 = netip.MustParseAddr("10.0.1.1")
	AddrS0 = netip.MustParseAddr("10.0.1.2")
	AddrR1 = netip.MustParseAddr("10.0.2.1")
	AddrD0 = netip.MustParseAddr("10.0.2.2")

	Addr6R0 = netip.MustParseAddr("2001:db8:1::1")
	Addr6S0 = netip.MustParseAddr("2001:db8:1::2")
	Addr6R1 = netip.MustParseAddr("2001:db8:2::1")
	Addr6D0 = netip.MustParseAddr("2001:db8:2::2")
)

// TopologyOptions are the free choices in T0.
type TopologyOptions struct {
	RX, TX int    // queues of each end of each cable; 0 = 1
	MTU    int    // of every link, bytes; 0 = 1500
	Suffix string // put behind src, rtr and dst in the names of the namespaces, so that two topologies can live side by side
}

// T0 builds T0 for a test with one queue per link and takes it down when the test ends. It skips or fails as RequirePrivilege does.
func T0(t TB) *Topology {
	t.Helper()
	return T0With(t, TopologyOptions{})
}

// T0With is T0 with options.
func T0With(t TB, o TopologyOptions) *Topology {
	t.Helper()
	RequirePrivilege(t)
	top, err := NewTopology(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := top.Close(); err != nil {
			t.Errorf("close topology: %v", err)
		}
	})
	return top
}

// NewTopology builds T0. The caller closes it. When it fails nothing is left.
func NewTopology(o TopologyOptions) (*Topology, error) {
	t := &Topology{}
	if err := t.build(o); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

func (t *Topology) build(o TopologyOptions) (err error) {
	for _, n := range [...]struct {
		ns   **NS
		name string
	}{{&t.Src, "src"}, {&t.Rtr, "rtr"}, {&t.Dst, "dst"}} {
		if *n.ns, err = NewNS(n.name + o.Suffix); err != nil {
			return err
		}
	}
	end := func(mac net.HardwareAddr) VethEnd { return VethEnd{NumRX: o.RX, NumTX: o.TX, MAC: mac} }
	if err := Veth(t.Src, "s0", t.Rtr, "r0", VethOptions{MTU: o.MTU, A: end(MACs0), B: end(MACr0)}); err != nil {
		return err
	}
	if err := Veth(t.Rtr, "r1", t.Dst, "d0", VethOptions{MTU: o.MTU, A: end(MACr1), B: end(MACd0)}); err != nil {
		return err
	}
	links := [...]struct {
		ns     *NS
		link   string
		v4, v6 netip.Addr
	}{
		{t.Src, "s0", AddrS0, Addr6S0},
		{t.Rtr, "r0", AddrR0, Addr6R0},
		{t.Rtr, "r1", AddrR1, Addr6R1},
		{t.Dst, "d0", AddrD0, Addr6D0},
	}
	for _, l := range links {
		if err := l.ns.Addr(l.link, l.v4.String()+"/24"); err != nil {
			return err
		}
		if err := l.ns.Addr(l.link, l.v6.String()+"/64"); err != nil {
			return err
		}
		if err := l.ns.Up(l.link); err != nil {
			return err
		}
	}
	for _, l := range links {
		if err := l.ns.Ready(l.link); err != nil {
			return err
		}
	}
	return errors.Join(
		t.Src.Route("default", AddrR0.String(), "s0"),
		t.Src.Route("default6", Addr6R0.String(), "s0"),
		t.Dst.Route("default", AddrR1.String(), "d0"),
		t.Dst.Route("default6", Addr6R1.String(), "d0"),
	)
}

// P returns the test packet: to r0's MAC, 10.0.1.2 → 10.0.2.2, UDP 1 → 9, 18 bytes of payload, TTL 64, DF, id 1.
func (t *Topology) P() []byte {
	return Ethernet(MACr0, MACs0, NewIP(AddrS0, AddrD0).UDP(1, 9, make([]byte, 18)))
}

// P6 returns the IPv6 twin of P.
func (t *Topology) P6() []byte {
	return Ethernet(MACr0, MACs0, NewIP(Addr6S0, Addr6D0).UDP(1, 9, make([]byte, 18)))
}

// Close removes all namespaces of the topology.
func (t *Topology) Close() error {
	var errs []error
	for _, n := range [...]*NS{t.Src, t.Rtr, t.Dst} {
		if n != nil {
			errs = append(errs, n.Close())
		}
	}
	return errors.Join(errs...)
}
