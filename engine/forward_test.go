package engine

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/engine/fib"
	"weir/internal/nettest"
)

// forwardCase is a frame from portIn and what is to become of it.
type forwardCase struct {
	name    string
	frame   []byte
	partial bool
	reason  Reason
	egress  int        // where reason is forwarded, or where a route has named it
	ask     netip.Addr // the next hop that the kernel is to look for
	out     []byte     // the frame that leaves
}

// run decides on a frame that lies between other bytes, as it does in a UMEM.
func (c forwardCase) run(t *testing.T, table *fib.Snapshot) {
	t.Helper()
	guard := bytes.Repeat([]byte{0xa5}, 64)
	area := slices.Concat(guard, c.frame, guard)
	before := slices.Clone(area)
	frame := area[len(guard):][:len(c.frame)]

	h := forward(frame, c.partial, table)

	require.Equal(t, c.reason.String(), h.reason.String())
	require.Equal(t, c.ask.IsValid(), h.ask)
	if h.ask {
		require.Equal(t, c.ask, nextHopAddr(frame, table))
	}
	if c.reason != forwarded {
		require.Equal(t, before, area, "a dropped frame is left as it is")
		require.Zero(t, h.length)
		if c.reason == DropEgressDown || c.reason == DropTooBig || c.reason == DropNeighbourUnresolved {
			require.Equal(t, c.egress, h.egress)
		}
		return
	}
	require.Equal(t, c.egress, h.egress)
	require.Equal(t, c.out, frame[:h.length])
	require.Equal(t, before[:len(guard)], area[:len(guard)])
	require.Equal(t, before[len(guard)+h.length:], area[len(guard)+h.length:], "nothing behind the packet is touched")
}

// cases returns everything forward can come to, in the order of the reasons.
func forwardCases() []forwardCase {
	var list []forwardCase
	drop := func(reason Reason, name string, frame []byte) {
		list = append(list, forwardCase{name: name, frame: frame, reason: reason})
	}
	dropAt := func(reason Reason, name string, egress int, ask netip.Addr, frame []byte) {
		list = append(list, forwardCase{name: name, frame: frame, reason: reason, egress: egress, ask: ask})
	}
	pass := func(name string, dst net.HardwareAddr, frame, packet []byte) {
		list = append(list, forwardCase{name: name, frame: frame, egress: portOut, out: nettest.Ethernet(dst, nettest.MACr1, packet)})
	}
	none := netip.Addr{}
	dst, dst6 := nettest.AddrD0.String(), nettest.Addr6D0.String()
	p, p6 := probe(dst), probe6(dst6)
	ttl := func(h nettest.IP, ttl uint8) nettest.IP { h.TTL = ttl; return h }
	from := func(src string, h nettest.IP) nettest.IP { h.Src = netip.MustParseAddr(src); return h }

	// What is no whole packet (A05).
	drop(DropMalformedHeader, "empty", nil)
	drop(DropMalformedHeader, "13 bytes", toRouter(udp(p))[:13])
	drop(DropMalformedHeader, "24 bytes", toRouter(udp(p))[:24])
	drop(DropMalformedHeader, "33 bytes", toRouter(udp(p))[:33])
	drop(DropMalformedHeader, "v6: 24 bytes", toRouter(udp(p6))[:24])
	drop(DropMalformedHeader, "v6: 53 bytes", toRouter(udp(p6))[:53])
	drop(DropNotIP, "ARP", nettest.EthernetType(nettest.MACr0, nettest.MACs0, 0x0806, make([]byte, 46)))
	drop(DropNotIP, "only an Ethernet header", nettest.EthernetType(nettest.MACr0, nettest.MACs0, 0x0806, nil))
	drop(DropNotIP, "tagged", nettest.EthernetType(nettest.MACr0, nettest.MACs0, 0x8100, append([]byte{0, 100, 8, 0}, udp(p)...)))
	drop(DropMalformedHeader, "version 5", toRouter(udp(p), at(0, 0x55), rightChecksum))
	drop(DropMalformedHeader, "IPv6 called IPv4", nettest.EthernetType(nettest.MACr0, nettest.MACs0, etherIPv4, udp(p6)))
	drop(DropMalformedHeader, "IPv4 called IPv6", nettest.EthernetType(nettest.MACr0, nettest.MACs0, etherIPv6, p.UDP(1, 9, make([]byte, 60))))
	drop(DropMalformedHeader, "ihl 3", toRouter(udp(p), at(0, 0x43), rightChecksum))
	drop(DropMalformedHeader, "ihl 0", toRouter(udp(p), at(0, 0x40)))
	drop(DropMalformedHeader, "ihl 15 beyond the frame", toRouter(udp(p), cut(40), at(0, 0x4f), rightChecksum))
	drop(DropBadChecksum, "header checksum", toRouter(udp(p), at(11, 0)))
	drop(DropBadChecksum, "header checksum 0", toRouter(udp(p), at(10, 0, 0)))
	drop(DropBadChecksum, "header checksum with options", toRouter(udp(nettest.IP{Src: p.Src, Dst: p.Dst, TTL: 64, Options: []byte{1, 1, 1, 1}}), at(21, 2)))
	drop(DropBadChecksum, "before the total length", toRouter(udp(p), at(2, 0, 10)))
	drop(DropMalformedLength, "total length 10", toRouter(udp(p), at(2, 0, 10), rightChecksum))
	drop(DropMalformedLength, "total length 19", toRouter(udp(p), at(2, 0, 19), rightChecksum))
	drop(DropMalformedLength, "total length 1400 in 60 bytes", toRouter(udp(p), at(2, 1400>>8, 1400&0xff), rightChecksum))
	drop(DropMalformedLength, "one byte missing", toRouter(udp(p), cut(45)))
	drop(DropMalformedLength, "total length below the header's with options",
		toRouter(udp(nettest.IP{Src: p.Src, Dst: p.Dst, TTL: 64, Options: []byte{1, 1, 1, 1}}), at(2, 0, 23), rightChecksum))
	drop(DropMalformedLength, "v6: one byte missing", toRouter(udp(p6), cut(65)))
	drop(DropMalformedLength, "v6: payload length 65535", toRouter(udp(p6), at(4, 0xff, 0xff)))

	// Addresses (A10).
	for _, src := range []string{"127.0.0.1", "127.255.255.255", "0.0.0.0", "0.1.2.3", "224.0.0.5", "239.255.255.255", "240.0.0.1",
		"255.255.255.255"} {
		drop(DropMartianSource, "from "+src, toRouter(udp(from(src, p))))
	}
	for _, to := range []string{"127.0.0.1", "0.0.0.0", "0.1.2.3", "224.0.0.1", "239.1.2.3", "240.0.0.1", "255.255.255.254", "255.255.255.255"} {
		drop(DropMartianDestination, "to "+to, toRouter(udp(probe(to))))
	}
	for _, src := range []string{"::", "::1", "ff02::1", "ff05::1:3", "::ffff:10.0.1.2", "::ffff:127.0.0.1"} {
		drop(DropMartianSource, "from "+src, toRouter(udp(from(src, p6))))
	}
	for _, to := range []string{"::", "::1", "ff02::1", "ff0e::1", "::ffff:10.0.2.2"} {
		drop(DropMartianDestination, "to "+to, toRouter(udp(probe6(to))))
	}
	drop(DropMartianSource, "v6: a martian before the length", toRouter(udp(from("::1", p6)), cut(60)))
	drop(DropMartianDestination, "by the route", toRouter(udp(probe("203.0.113.1"))))
	drop(DropMartianDestination, "v6: by the route", toRouter(udp(probe6("2001:db8:f::1"))))
	drop(DropScope, "from link-local", toRouter(udp(from("fe80::2", p6))))
	drop(DropScope, "from the end of link-local", toRouter(udp(from("febf::2", p6))))
	drop(DropScope, "to link-local", toRouter(udp(probe6("fe80::2"))))
	pass("from 169.254.1.1", nettest.MACd0, toRouter(udp(from("169.254.1.1", p))), udp(ttl(from("169.254.1.1", p), 63)))
	pass("from the end of class A to C", nettest.MACd0, toRouter(udp(from("223.255.255.255", p))), udp(ttl(from("223.255.255.255", p), 63)))
	pass("from 126.255.255.255", nettest.MACd0, toRouter(udp(from("126.255.255.255", p))), udp(ttl(from("126.255.255.255", p), 63)))
	pass("from 1.0.0.0", nettest.MACd0, toRouter(udp(from("1.0.0.0", p))), udp(ttl(from("1.0.0.0", p), 63)))
	pass("from fec0::1", nettest.MACd0, toRouter(udp(from("fec0::1", p6))), udp(ttl(from("fec0::1", p6), 63)))

	// Hop-by-hop options come before the route, and IPv4 options behind it, as in the kernel.
	padN := []byte{protoUDP, 0, 1, 4, 0, 0, 0, 0}
	drop(DropHopByHop, "hop-by-hop", toRouter(p6.Packet(protoHopByHop, append(padN, p6.UDP(1, 9, payload)[40:]...))))
	drop(DropHopByHop, "hop-by-hop without a route", toRouter(probe6("2001:db8:ffff::1").Packet(protoHopByHop, padN)))
	drop(DropHopByHop, "jumbogram", toRouter(p6.Packet(protoHopByHop, padN), at(4, 0, 0)))

	// Routes.
	for _, r := range []struct {
		reason Reason
		v4, v6 string
	}{
		{DropNoRoute, "8.8.8.8", "2001:db8:ffff::1"}, {DropToHost, "10.0.2.1", "2001:db8:2::1"}, {DropToHost, "10.0.2.255", ""},
		{DropBlackhole, "198.51.100.1", "2001:db8:a::1"}, {DropUnreachable, "198.51.100.17", "2001:db8:b::1"},
		{DropProhibit, "198.51.100.33", "2001:db8:c::1"}, {DropEgressNotAPort, "198.51.100.49", "2001:db8:d::1"},
		{DropUnsupportedRoute, "198.51.100.65", "2001:db8:e::1"},
	} {
		drop(r.reason, r.reason.String()+" "+r.v4, toRouter(udp(probe(r.v4))))
		drop(r.reason, r.reason.String()+" before TTL 1", toRouter(udp(ttl(probe(r.v4), 1))))
		if r.v6 != "" {
			drop(r.reason, r.reason.String()+" "+r.v6, toRouter(udp(probe6(r.v6))))
			drop(r.reason, r.reason.String()+" before hop limit 1", toRouter(udp(ttl(probe6(r.v6), 1))))
		}
	}
	options := p
	options.Options = []byte{1, 1, 1, 1}
	drop(DropOptions, "options", toRouter(udp(options)))
	drop(DropOptions, "options before TTL 1", toRouter(udp(ttl(options, 1))))
	options.Options = []byte{0x83, 7, 4, 10, 0, 2, 2, 1} // LSRR (A02)
	drop(DropOptions, "loose source route", toRouter(udp(options)))
	options.Options, options.Dst = bytes.Repeat([]byte{1}, 40), netip.MustParseAddr("8.8.8.8")
	drop(DropNoRoute, "no route before options", toRouter(udp(options)))

	// TTL and hop limit (A01).
	for _, n := range []uint8{0, 1} {
		drop(DropTTLExpired, fmt.Sprint("TTL ", n), toRouter(udp(ttl(p, n))))
		drop(DropTTLExpired, fmt.Sprint("hop limit ", n), toRouter(udp(ttl(p6, n))))
		drop(DropTTLExpired, fmt.Sprint("before the egress, TTL ", n), toRouter(udp(ttl(probe("10.0.3.2"), n))))
	}
	drop(DropTTLExpired, "v6: hop limit before the source's scope", toRouter(udp(ttl(from("fe80::2", p6), 1))))
	for _, n := range []uint8{2, 64, 128, 255} {
		pass(fmt.Sprint("TTL ", n), nettest.MACd0, toRouter(udp(ttl(p, n))), udp(ttl(p, n-1)))
		pass(fmt.Sprint("hop limit ", n), nettest.MACd0, toRouter(udp(ttl(p6, n))), udp(ttl(p6, n-1)))
	}

	// The egress and the next hop.
	dropAt(DropEgressDown, "egress down", portDown, none, toRouter(udp(probe("10.0.3.2"))))
	dropAt(DropEgressDown, "v6: egress down", portDown, none, toRouter(udp(probe6("2001:db8:3::2"))))
	big := func(h nettest.IP, length int) []byte {
		headers := 28
		if h.Dst.Is6() {
			headers = 48
		}
		return h.UDP(1, 9, bytes.Repeat(payload, 100)[:length-headers])
	}
	pass("as large as the MTU", nettest.MACd0, toRouter(big(p, 1500)), big(ttl(p, 63), 1500))
	pass("v6: as large as the MTU", nettest.MACd0, toRouter(big(p6, 1500)), big(ttl(p6, 63), 1500))
	dropAt(DropTooBig, "larger than the MTU", portOut, none, toRouter(big(p, 1501)))
	dropAt(DropTooBig, "v6: larger than the MTU", portOut, none, toRouter(big(p6, 1501)))
	pass("as large as the route's MTU", nettest.MACd0, toRouter(big(probe("192.0.3.1"), 1400)), big(ttl(probe("192.0.3.1"), 63), 1400))
	dropAt(DropTooBig, "larger than the route's MTU", portOut, none, toRouter(big(probe("192.0.3.1"), 1401)))
	dropAt(DropTooBig, "v6: larger than the route's MTU", portOut, none, toRouter(big(probe6("2001:db8:6::1"), 1401)))
	dropAt(DropTooBig, "larger than the MTU, below the route's", portOut, none, toRouter(big(probe("192.0.4.1"), 1501)))
	dropAt(DropNeighbourUnresolved, "no neighbour", portOut, newHost, toRouter(udp(probe(newHost.String()))))
	dropAt(DropNeighbourUnresolved, "v6: no neighbour", portOut, newHost6, toRouter(udp(probe6(newHost6.String()))))
	dropAt(DropNeighbourUnresolved, "failed neighbour", portOut, deafHost, toRouter(udp(probe(deafHost.String()))))
	dropAt(DropNeighbourUnresolved, "v6: failed neighbour", portOut, deafHost6, toRouter(udp(probe6(deafHost6.String()))))
	dropAt(DropNeighbourUnresolved, "unknown gateway", portOut, newHost, toRouter(udp(probe("192.0.7.1"))))
	dropAt(DropNeighbourUnresolved, "v6: unknown gateway", portOut, newHost6, toRouter(udp(probe6("2001:db8:7::1"))))
	pass("through a gateway", nettest.MACd0, toRouter(udp(probe("192.0.2.1"))), udp(ttl(probe("192.0.2.1"), 63)))
	pass("IPv4 through an IPv6 gateway", gatewayMAC, toRouter(udp(probe("192.0.5.1"))), udp(ttl(probe("192.0.5.1"), 63)))
	pass("v6: through a gateway", gatewayMAC, toRouter(udp(probe6("2001:db8:5::1"))), udp(ttl(probe6("2001:db8:5::1"), 63)))
	for _, s := range []struct {
		hop    netip.Addr
		header nettest.IP
	}{{staleHost, probe(staleHost.String())}, {staleHost, probe("192.0.6.1")}, {staleHost6, probe6(staleHost6.String())}} {
		list = append(list, forwardCase{name: "stale: to " + s.header.Dst.String(), frame: toRouter(udp(s.header)), egress: portOut, ask: s.hop,
			out: nettest.Ethernet(staleMAC, nettest.MACr1, udp(ttl(s.header, 63)))})
	}
	back := nettest.NewIP(nettest.AddrD0, nettest.AddrS0)
	list = append(list, forwardCase{name: "back where it came from", frame: toRouter(udp(back)), egress: portIn,
		out: nettest.Ethernet(nettest.MACs0, nettest.MACr0, udp(ttl(back, 63)))})

	// Padding (A05).
	pass("total length 28 in 42 bytes", nettest.MACd0, toRouter(p.UDP(1, 9, nil)), ttl(p, 63).UDP(1, 9, nil))
	pass("total length 28 padded to 60 bytes", nettest.MACd0, toRouter(p.UDP(1, 9, nil), padded(46)), ttl(p, 63).UDP(1, 9, nil))
	pass("total length 20", nettest.MACd0, toRouter(p.Packet(59, nil), padded(46)), ttl(p, 63).Packet(59, nil))
	pass("v6: payload length 8 padded", nettest.MACd0, toRouter(p6.UDP(1, 9, nil), padded(100)), ttl(p6, 63).UDP(1, 9, nil))
	pass("v6: no payload", nettest.MACd0, toRouter(p6.Packet(59, nil), padded(46)), ttl(p6, 63).Packet(59, nil))
	return append(list, checksumCases()...)
}

func TestForward(t *testing.T) {
	table := testTable()
	seen := map[Reason]bool{}
	for _, c := range forwardCases() {
		t.Run(c.reason.String()+"/"+c.name, func(t *testing.T) { c.run(t, table) })
		seen[c.reason] = true
	}
	for reason := range numReasons {
		switch reason {
		case DropBadDescriptor, DropBacklogFull, DropNoFrame: // the worker's
		default:
			require.True(t, seen[reason], "no case for %v", reason)
		}
	}
}

// All lengths of a frame, the packet cut or padded to it: never more is read than is there.
func TestForwardAtEveryLength(t *testing.T) {
	table := testTable()
	for _, packet := range [][]byte{udp(probe("10.0.2.2")), udp(probe6("2001:db8:2::2"))} {
		whole := toRouter(packet)
		for length := range len(whole) + 20 {
			frame := append(slices.Clone(whole), make([]byte, 20)...)[:length:length]
			h := forward(frame, true, table)
			if length < len(whole) {
				require.Contains(t, []Reason{DropMalformedHeader, DropMalformedLength}, h.reason, "%d bytes", length)
			} else {
				require.Equal(t, forwarded, h.reason, "%d bytes", length)
				require.Equal(t, len(whole), h.length)
			}
		}
	}
}
