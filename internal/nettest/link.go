package nettest

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// VethEnd is one end of a cable.
type VethEnd struct {
	NumRX, NumTX int              // queues, fixed at creation; 0 = 1
	MAC          net.HardwareAddr // nil = the kernel chooses
}

// VethOptions describes a cable.
type VethOptions struct {
	MTU  int // of both ends, bytes; 0 = 1500
	A, B VethEnd
}

// Veth makes the link aName in a and its peer bName in b, both down. The ends may be in the same namespace.
func Veth(a *NS, aName string, b *NS, bName string, o VethOptions) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = aName
	attrs.MTU = o.MTU
	attrs.HardwareAddr = o.A.MAC
	attrs.NumTxQueues = max(o.A.NumTX, 1)
	attrs.NumRxQueues = max(o.A.NumRX, 1)
	v := netlink.NewVeth(attrs)
	v.PeerName = bName
	v.PeerNamespace = netlink.NsFd(b.fd)
	v.PeerHardwareAddr = o.B.MAC
	v.PeerNumTxQueues = uint32(max(o.B.NumTX, 1))
	v.PeerNumRxQueues = uint32(max(o.B.NumRX, 1))
	if err := a.handle.LinkAdd(v); err != nil {
		return fmt.Errorf("create veth %s/%s – %s/%s: %w", a.name, aName, b.name, bName, err)
	}
	return nil
}

// Link returns the kernel's description of a link of the namespace.
func (n *NS) Link(name string) (netlink.Link, error) {
	l, err := n.handle.LinkByName(name)
	if err != nil {
		return nil, fmt.Errorf("find link %s in %s: %w", name, n.name, err)
	}
	return l, nil
}

// onLink finds a link by name, calls f on it and names both in its error.
func (n *NS) onLink(operation, name string, f func(netlink.Link) error) error {
	l, err := n.Link(name)
	if err != nil {
		return fmt.Errorf("%s: %w", operation, err)
	}
	if err := f(l); err != nil {
		return fmt.Errorf("%s %s in %s: %w", operation, name, n.name, err)
	}
	return nil
}

// Up sets a link administratively up.
func (n *NS) Up(link string) error { return n.onLink("set up", link, n.handle.LinkSetUp) }

// Ready waits until a link can be used, at most five seconds: both ends are up, the kernel has noticed, and the IPv6 addresses it has
// work. Without asking, the kernel notices the carrier of a veth up to a second late, and IPv6 is deaf on it until then.
func (n *NS) Ready(link string) error {
	for range 1000 {
		ready, err := n.ready(link)
		if err != nil {
			return fmt.Errorf("wait for %s in %s: %w", link, n.name, err)
		}
		if ready {
			return nil
		}
		time.Sleep(5 * time.Millisecond)
	}
	return fmt.Errorf("wait for %s in %s: not ready after 5 s: is the other end up?", link, n.name)
}

func (n *NS) ready(link string) (bool, error) {
	// Asking for one link by name makes the kernel work off the carrier events that wait for it (linkwatch_sync_dev).
	l, err := n.Link(link)
	if err != nil || l.Attrs().OperState != netlink.OperUp {
		return false, err
	}
	addrs, err := n.handle.AddrList(l, netlink.FAMILY_V6)
	if err != nil {
		return false, err
	}
	// An address shows before a kernel worker has made the route that delivers to it.
	routes, err := n.handle.RouteListFiltered(netlink.FAMILY_V6, &netlink.Route{Table: unix.RT_TABLE_LOCAL}, netlink.RT_FILTER_TABLE)
	if err != nil {
		return false, err
	}
	for _, a := range addrs {
		delivers := func(r netlink.Route) bool {
			return r.Type == unix.RTN_LOCAL && r.Dst != nil && r.Dst.IP.Equal(a.IP) && r.Dst.Mask.String() == hostMask6
		}
		if !slices.ContainsFunc(routes, delivers) {
			return false, nil
		}
	}
	return true, nil
}

var hostMask6 = net.CIDRMask(128, 128).String()

// Down sets a link administratively down.
func (n *NS) Down(link string) error { return n.onLink("set down", link, n.handle.LinkSetDown) }

// Delete deletes a link, and its peer with it.
func (n *NS) Delete(link string) error { return n.onLink("delete", link, n.handle.LinkDel) }

// SetMTU sets the MTU of a link, in bytes.
func (n *NS) SetMTU(link string, mtu int) error {
	return n.onLink("set mtu of", link, func(l netlink.Link) error { return n.handle.LinkSetMTU(l, mtu) })
}

// SetMAC sets the hardware address of a link.
func (n *NS) SetMAC(link string, mac net.HardwareAddr) error {
	return n.onLink("set mac of", link, func(l netlink.Link) error { return n.handle.LinkSetHardwareAddr(l, mac) })
}

// Addr adds an address with its prefix length, such as 10.0.1.1/24 or 2001:db8:1::1/64; IPv6 without duplicate address detection.
func (n *NS) Addr(link, cidr string) error {
	a, err := address(cidr)
	if err != nil {
		return err
	}
	return n.onLink("add "+cidr+" to", link, func(l netlink.Link) error { return n.handle.AddrAdd(l, a) })
}

// DelAddr removes an address that Addr added.
func (n *NS) DelAddr(link, cidr string) error {
	a, err := address(cidr)
	if err != nil {
		return err
	}
	return n.onLink("delete "+cidr+" from", link, func(l netlink.Link) error { return n.handle.AddrDel(l, a) })
}

func address(cidr string) (*netlink.Addr, error) {
	p, err := netip.ParsePrefix(cidr)
	if err != nil {
		return nil, fmt.Errorf("parse address: %w", err)
	}
	a := &netlink.Addr{IPNet: &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}}
	if p.Addr().Is6() {
		a.Flags = unix.IFA_F_NODAD
	}
	return a, nil
}

// Route adds a unicast route to the main table. dst is a prefix, "default" or "default6"; via an address, or "" for an on-link
// route; dev a link, or "" when via alone tells it.
func (n *NS) Route(dst, via, dev string) error {
	r, err := n.route(dst, via, dev)
	if err != nil {
		return err
	}
	if err := n.handle.RouteAdd(r); err != nil {
		return fmt.Errorf("add route %s via %q dev %q in %s: %w", dst, via, dev, n.name, err)
	}
	return nil
}

// DelRoute deletes a route that Route added.
func (n *NS) DelRoute(dst, via, dev string) error {
	r, err := n.route(dst, via, dev)
	if err != nil {
		return err
	}
	if err := n.handle.RouteDel(r); err != nil {
		return fmt.Errorf("delete route %s via %q dev %q in %s: %w", dst, via, dev, n.name, err)
	}
	return nil
}

func (n *NS) route(dst, via, dev string) (*netlink.Route, error) {
	switch dst {
	case "default":
		dst = "0.0.0.0/0"
	case "default6":
		dst = "::/0"
	}
	p, err := netip.ParsePrefix(dst)
	if err != nil {
		return nil, fmt.Errorf("parse route: %w", err)
	}
	r := &netlink.Route{Dst: &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}, Scope: netlink.SCOPE_LINK}
	if via != "" {
		gw, err := netip.ParseAddr(via)
		if err != nil {
			return nil, fmt.Errorf("parse gateway: %w", err)
		}
		r.Scope = netlink.SCOPE_UNIVERSE
		if gw.Is4() == p.Addr().Is4() {
			r.Gw = gw.AsSlice()
		} else {
			r.Via = &netlink.Via{AddrFamily: unix.AF_INET6, Addr: gw.AsSlice()}
		}
	}
	if dev != "" {
		l, err := n.Link(dev)
		if err != nil {
			return nil, err
		}
		r.LinkIndex = l.Attrs().Index
	}
	return r, nil
}

// Neigh sets a permanent neighbour entry, replacing what is there.
func (n *NS) Neigh(link, addr string, mac net.HardwareAddr) error {
	return n.NeighState(link, addr, mac, netlink.NUD_PERMANENT)
}

// NeighState sets a neighbour entry with a state of netlink.NUD_*, replacing what is there. mac is nil where the state has none.
func (n *NS) NeighState(link, addr string, mac net.HardwareAddr, state int) error {
	ip, err := netip.ParseAddr(addr)
	if err != nil {
		return fmt.Errorf("parse neighbour: %w", err)
	}
	return n.onLink("set neighbour "+addr+" on", link, func(l netlink.Link) error {
		return n.handle.NeighSet(&netlink.Neigh{LinkIndex: l.Attrs().Index, State: state, IP: ip.AsSlice(), HardwareAddr: mac})
	})
}

// DelNeigh deletes a neighbour entry.
func (n *NS) DelNeigh(link, addr string) error {
	ip, err := netip.ParseAddr(addr)
	if err != nil {
		return fmt.Errorf("parse neighbour: %w", err)
	}
	return n.onLink("delete neighbour "+addr+" on", link, func(l netlink.Link) error {
		return n.handle.NeighDel(&netlink.Neigh{LinkIndex: l.Attrs().Index, IP: ip.AsSlice()})
	})
}

// EthtoolStats returns the driver's counters of a link (`ethtool -S`), by their kernel names.
func (n *NS) EthtoolStats(link string) (map[string]uint64, error) {
	var stats map[string]uint64
	err := n.ethtool(link, func(e *ethtool.Ethtool) (err error) {
		stats, err = e.Stats(link)
		return err
	})
	return stats, err
}

// Offload switches a feature of a link by its kernel name, such as tx-tcp-segmentation or rx-gro (`ethtool -K`).
func (n *NS) Offload(link, feature string, on bool) error {
	return n.ethtool(link, func(e *ethtool.Ethtool) error { return e.Change(link, map[string]bool{feature: on}) })
}

func (n *NS) ethtool(link string, f func(*ethtool.Ethtool) error) error {
	err := n.Do(func() error {
		e, err := ethtool.NewEthtool()
		if err != nil {
			return err
		}
		defer e.Close()
		return f(e)
	})
	if err != nil {
		return fmt.Errorf("ethtool %s in %s: %w", link, n.name, err)
	}
	return nil
}
