package engine

import (
	"encoding/binary"
	"net"
	"net/netip"
	"sync"

	"weir/engine/fib"
	"weir/internal/nettest"
)

// The ports of testTable.
const (
	portIn   = 0 // r0 of T0
	portOut  = 1 // r1
	portDown = 2
)

// Addresses of testTable beyond those of T0.
var (
	staleHost = netip.MustParseAddr("10.0.2.3")
	deafHost  = netip.MustParseAddr("10.0.2.4") // has an entry that is not usable
	newHost   = netip.MustParseAddr("10.0.2.5") // has none

	staleHost6 = netip.MustParseAddr("2001:db8:2::3")
	deafHost6  = netip.MustParseAddr("2001:db8:2::4")
	newHost6   = netip.MustParseAddr("2001:db8:2::5")
	gateway6   = netip.MustParseAddr("fe80::2") // on portOut

	staleMAC    = net.HardwareAddr{2, 0, 0, 0, 2, 3}
	gatewayMAC  = net.HardwareAddr{0xfe, 0xdc, 0xba, 0x98, 0x76, 0x54}
	portDownMAC = net.HardwareAddr{2, 0, 0, 0, 3, 1}
)

// testTable is T0 as the router's kernel sees it, a port that is down, and a route of every kind.
var testTable = sync.OnceValue(func() *fib.Snapshot { return fib.NewSnapshot(testLiteral()) })

func testLiteral() fib.Literal {
	port := func(mac net.HardwareAddr, up bool) fib.PortInfo {
		return fib.PortInfo{Up: up, MTU: 1500, MAC: [6]byte(mac)}
	}
	l := fib.Literal{Ports: []fib.PortInfo{portIn: port(nettest.MACr0, true), portOut: port(nettest.MACr1, true), portDown: port(portDownMAC, false)}}
	for _, n := range []struct {
		port  int
		addr  netip.Addr
		mac   net.HardwareAddr
		state fib.NeighbourState
	}{
		{portIn, nettest.AddrS0, nettest.MACs0, fib.Reachable}, {portIn, nettest.Addr6S0, nettest.MACs0, fib.Reachable},
		{portOut, nettest.AddrD0, nettest.MACd0, fib.Reachable}, {portOut, nettest.Addr6D0, nettest.MACd0, fib.Reachable},
		{portOut, staleHost, staleMAC, fib.Stale}, {portOut, staleHost6, staleMAC, fib.Stale},
		{portOut, deafHost, make(net.HardwareAddr, 6), fib.Unusable}, {portOut, deafHost6, make(net.HardwareAddr, 6), fib.Unusable},
		{portOut, gateway6, gatewayMAC, fib.Reachable},
	} {
		l.Neighbours = append(l.Neighbours, fib.LiteralNeighbour{Port: n.port, Addr: n.addr, MAC: [6]byte(n.mac), State: n.state})
	}
	add := func(r fib.Route, prefixes ...string) {
		if r.Kind != fib.Forward {
			r.Egress = -1
		}
		for _, p := range prefixes {
			l.Routes = append(l.Routes, fib.LiteralRoute{Prefix: netip.MustParsePrefix(p), Route: r})
		}
	}
	add(fib.Route{Kind: fib.Forward, Egress: portIn}, "10.0.1.0/24", "2001:db8:1::/64")
	add(fib.Route{Kind: fib.Forward, Egress: portOut}, "10.0.2.0/24", "2001:db8:2::/64")
	add(fib.Route{Kind: fib.Forward, Egress: portDown}, "10.0.3.0/24", "2001:db8:3::/64")
	add(fib.Route{Kind: fib.Local}, "10.0.1.1/32", "10.0.2.1/32", "2001:db8:1::1/128", "2001:db8:2::1/128")
	add(fib.Route{Kind: fib.Broadcast}, "10.0.2.255/32")
	add(fib.Route{Kind: fib.Forward, Egress: portOut, Via: nettest.AddrD0}, "192.0.2.0/24")
	add(fib.Route{Kind: fib.Forward, Egress: portOut, Via: nettest.AddrD0, MTU: 1400}, "192.0.3.0/24")
	add(fib.Route{Kind: fib.Forward, Egress: portOut, Via: nettest.AddrD0, MTU: 9000}, "192.0.4.0/24")
	add(fib.Route{Kind: fib.Forward, Egress: portOut, Via: gateway6}, "192.0.5.0/24", "2001:db8:5::/48")
	add(fib.Route{Kind: fib.Forward, Egress: portOut, Via: staleHost}, "192.0.6.0/24")
	add(fib.Route{Kind: fib.Forward, Egress: portOut, Via: newHost}, "192.0.7.0/24")
	add(fib.Route{Kind: fib.Forward, Egress: portOut, Via: nettest.Addr6D0, MTU: 1400}, "2001:db8:6::/48")
	add(fib.Route{Kind: fib.Forward, Egress: portOut, Via: newHost6}, "2001:db8:7::/48")
	add(fib.Route{Kind: fib.Blackhole}, "198.51.100.0/28", "2001:db8:a::/48")
	add(fib.Route{Kind: fib.Unreachable}, "198.51.100.16/28", "2001:db8:b::/48")
	add(fib.Route{Kind: fib.Prohibit}, "198.51.100.32/28", "2001:db8:c::/48")
	add(fib.Route{Kind: fib.NotAPort}, "198.51.100.48/28", "2001:db8:d::/48")
	add(fib.Route{Kind: fib.Unsupported, Reason: fib.Multipath}, "198.51.100.64/28", "2001:db8:e::/48")
	add(fib.Route{Kind: fib.Multicast}, "203.0.113.0/24", "2001:db8:f::/48") // where a multicast route would not be stopped before
	return l
}

// A change spoils or adorns a packet.
type change func(packet []byte) []byte

// at writes bytes into a packet.
func at(offset int, bytes ...byte) change {
	return func(p []byte) []byte {
		copy(p[offset:], bytes)
		return p
	}
}

// rightChecksum makes the IPv4 header checksum right again.
func rightChecksum(p []byte) []byte {
	headerLen := int(p[0]&15) * 4
	p[10], p[11] = 0, 0
	binary.BigEndian.PutUint16(p[10:], nettest.Checksum(0, p[:min(headerLen, len(p))]))
	return p
}

// padded appends bytes up to a length, as a network adapter does behind a packet that is too short for Ethernet.
func padded(length int) change {
	return func(p []byte) []byte {
		for len(p) < length {
			p = append(p, 0xee)
		}
		return p
	}
}

func cut(length int) change { return func(p []byte) []byte { return p[:length] } }

// partialChecksum leaves the checksum of the segment at an offset as a local stack leaves it to its device: the folded sum of the pseudo
// header.
func partialChecksum(protocol byte, segment int) change {
	return func(p []byte) []byte {
		field := segment + map[byte]int{protoTCP: 16, protoUDP: 6}[protocol]
		pseudo := make([]byte, 0, 40)
		if p[0]>>4 == 4 {
			pseudo = append(pseudo, p[12:20]...)
		} else {
			pseudo = append(pseudo, p[8:40]...)
		}
		pseudo = binary.BigEndian.AppendUint16(append(pseudo, 0, protocol), uint16(len(p)-segment))
		binary.BigEndian.PutUint16(p[field:], ^nettest.Checksum(0, pseudo))
		return p
	}
}

// toRouter frames a packet of a sender on portIn.
func toRouter(packet []byte, changes ...change) []byte {
	for _, c := range changes {
		packet = c(packet)
	}
	return nettest.Ethernet(nettest.MACr0, nettest.MACs0, packet)
}

// probe is the header of the test packet P of T0 to some destination, and probe6 the same in IPv6.
func probe(dst string) nettest.IP { return nettest.NewIP(nettest.AddrS0, netip.MustParseAddr(dst)) }

func probe6(dst string) nettest.IP { return nettest.NewIP(nettest.Addr6S0, netip.MustParseAddr(dst)) }

// payload is what P carries.
var payload = []byte("weir test payload.")

func udp(h nettest.IP) []byte { return h.UDP(1, 9, payload) }
