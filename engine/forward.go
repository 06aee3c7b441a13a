package engine

import (
	"encoding/binary"
	"net/netip"

	"weir/engine/fib"
)

const (
	ethHeaderLen = 14
	etherIPv4    = 0x0800
	etherIPv6    = 0x86dd

	ipv4MinHeaderLen = 20
	ipv6HeaderLen    = 40

	protoHopByHop = 0
	protoTCP      = 6
	protoUDP      = 17
	protoDestOpts = 60
)

// hop is the outcome of the decision on one packet. It has four small fields, since the compiler keeps larger structs in memory, which
// costs more than the route lookup.
type hop struct {
	// reason is forwarded, or why the packet is dropped.
	reason Reason
	// ask says that the kernel should look for the next hop (see nextHopAddr): its MAC is not known (reason is
	// DropNeighbourUnresolved), or it was not verified for a while (forwarded).
	ask bool
	// egress is the index of the port the packet leaves through, once a route has said so.
	egress int
	// length is what the frame is cut to: the padding behind a short IP packet never leaks.
	length int
}

// forward decides where the frame goes and rewrites it for its next hop: parse, route, neighbour, rewrite, in the order of the
// kernel's ip_rcv and ip_forward (ip6_rcv_core and ip6_forward), so that a packet with two faults gets the kernel's answer. It changes
// the frame only when it returns forwarded. partial says that the ingress delivers locally produced segments with partial checksums
// (see completeChecksum).
//
// It is a pure function of its arguments and allocates nothing on any branch.
func forward(frame []byte, partial bool, table *fib.Snapshot) hop {
	if len(frame) < ethHeaderLen {
		return hop{reason: DropMalformedHeader}
	}
	switch binary.BigEndian.Uint16(frame[12:]) {
	case etherIPv4:
		return forwardIPv4(frame, partial, table)
	case etherIPv6:
		return forwardIPv6(frame, partial, table)
	}
	return hop{reason: DropNotIP}
}

func forwardIPv4(frame []byte, partial bool, table *fib.Snapshot) hop {
	if len(frame) < ethHeaderLen+ipv4MinHeaderLen {
		return hop{reason: DropMalformedHeader}
	}
	ip := frame[ethHeaderLen:]
	header := (*[ipv4MinHeaderLen]byte)(ip)
	headerLen := int(header[0]&0x0f) * 4
	if header[0]>>4 != 4 || headerLen < ipv4MinHeaderLen || headerLen > len(ip) {
		return hop{reason: DropMalformedHeader}
	}
	check := sumHeader(header)
	if headerLen != ipv4MinHeaderLen {
		check = sum(ip[ipv4MinHeaderLen:headerLen], check)
	}
	if fold(check) != 0xffff {
		return hop{reason: DropBadChecksum}
	}
	total := int(binary.BigEndian.Uint16(header[2:]))
	if total < headerLen || total > len(ip) {
		return hop{reason: DropMalformedLength}
	}
	src, dst := [4]byte(header[12:]), [4]byte(header[16:])
	if neverForwarded(src) {
		return hop{reason: DropMartianSource}
	}
	if neverForwarded(dst) {
		return hop{reason: DropMartianDestination}
	}
	route := table.Lookup4(dst)
	if reason := refuse(route); reason != forwarded {
		return hop{reason: reason}
	}
	if headerLen != ipv4MinHeaderLen {
		return hop{reason: DropOptions}
	}
	if header[8] <= 1 {
		return hop{reason: DropTTLExpired}
	}
	neighbour := route.Next
	if neighbour == nil {
		neighbour = table.Neighbour(route.Egress, netip.AddrFrom4(dst))
	}
	h := nextHop(frame, route, neighbour, total, table)
	if h.reason != forwarded {
		return h
	}
	decrementTTL(header)
	// A partial checksum is never left on a fragment: the kernel completes it before it cuts.
	if partial && binary.BigEndian.Uint16(header[6:])&0x3fff == 0 {
		completeChecksum(ip[ipv4MinHeaderLen:total], header[9], sumAddresses(header))
	}
	return h
}

// neverForwarded reports whether no packet on the wire may come from or go to an address: "this" network, loopback, multicast, class E
// and broadcast (RFC 1812, 4.2.2.11 and 5.3.7; RFC 6890). Linux is more lenient with 0.0.0.0/8 but for 0.0.0.0, and with class E.
func neverForwarded(a [4]byte) bool { return a[0] == 0 || a[0] == 127 || a[0] >= 224 }

func forwardIPv6(frame []byte, partial bool, table *fib.Snapshot) hop {
	if len(frame) < ethHeaderLen+ipv6HeaderLen {
		return hop{reason: DropMalformedHeader}
	}
	ip := frame[ethHeaderLen:]
	if ip[0]>>4 != 6 {
		return hop{reason: DropMalformedHeader}
	}
	src, dst := netip.AddrFrom16([16]byte(ip[8:24])), netip.AddrFrom16([16]byte(ip[24:40]))
	if neverForwardedIPv6(src) {
		return hop{reason: DropMartianSource}
	}
	if neverForwardedIPv6(dst) {
		return hop{reason: DropMartianDestination}
	}
	total := ipv6HeaderLen + int(binary.BigEndian.Uint16(ip[4:]))
	if total > len(ip) {
		return hop{reason: DropMalformedLength}
	}
	next := ip[6]
	if next == protoHopByHop {
		return hop{reason: DropHopByHop}
	}
	if dst.IsLinkLocalUnicast() {
		return hop{reason: DropScope}
	}
	route := table.Lookup(dst)
	if reason := refuse(route); reason != forwarded {
		return hop{reason: reason}
	}
	if ip[7] <= 1 {
		return hop{reason: DropTTLExpired}
	}
	if src.IsLinkLocalUnicast() {
		return hop{reason: DropScope}
	}
	neighbour := route.Next
	if neighbour == nil {
		neighbour = table.Neighbour(route.Egress, dst)
	}
	h := nextHop(frame, route, neighbour, total, table)
	if h.reason != forwarded {
		return h
	}
	ip[7]--
	if partial {
		completeIPv6(ip[:total], next)
	}
	return h
}

// neverForwardedIPv6 reports whether no packet on the wire may come from or go to an address through a router's unicast tables:
// multicast, unspecified, loopback, and IPv4-mapped, which stand for something else inside hosts.
func neverForwardedIPv6(a netip.Addr) bool {
	return a.IsMulticast() || a.IsUnspecified() || a.IsLoopback() || a.Is4In6()
}

// completeIPv6 finds the TCP or UDP segment behind destination options and completes its checksum. Behind a routing header the
// pseudo-header holds the last destination, which only the header's type can tell, so the segment is left as it is.
func completeIPv6(ip []byte, next byte) {
	at := ipv6HeaderLen
	for next == protoDestOpts {
		if at+8 > len(ip) {
			return
		}
		next, at = ip[at], at+8+int(ip[at+1])*8
	}
	if at < len(ip) {
		completeChecksum(ip[at:], next, sum(ip[8:40], 0))
	}
}

// refuse says why a route does not lead through a port; forwarded if it does.
func refuse(route *fib.Route) Reason {
	if route == nil {
		return DropNoRoute
	}
	switch route.Kind {
	case fib.Forward:
		return forwarded
	case fib.Local, fib.Broadcast:
		return DropToHost
	case fib.Multicast:
		return DropMartianDestination
	case fib.Blackhole:
		return DropBlackhole
	case fib.Unreachable:
		return DropUnreachable
	case fib.Prohibit:
		return DropProhibit
	case fib.NotAPort:
		return DropEgressNotAPort
	}
	return DropUnsupportedRoute
}

// nextHop checks that the egress takes a packet of length bytes and that the neighbour, nil if there is none, has a MAC, and writes the
// MAC addresses.
func nextHop(frame []byte, route *fib.Route, neighbour *fib.Neighbour, length int, table *fib.Snapshot) hop {
	out := table.Port(route.Egress)
	if !out.Up {
		return hop{reason: DropEgressDown, egress: route.Egress}
	}
	if length > out.MTU || (route.MTU != 0 && length > route.MTU) {
		return hop{reason: DropTooBig, egress: route.Egress}
	}
	if neighbour == nil {
		return hop{reason: DropNeighbourUnresolved, ask: true, egress: route.Egress}
	}
	mac, ok := neighbour.MAC()
	if !ok {
		return hop{reason: DropNeighbourUnresolved, ask: true, egress: route.Egress}
	}
	ethernet := (*[ethHeaderLen]byte)(frame)
	binary.BigEndian.PutUint32(ethernet[0:], uint32(mac>>16))
	binary.BigEndian.PutUint16(ethernet[4:], uint16(mac))
	*(*[6]byte)(ethernet[6:]) = out.MAC
	return hop{ask: neighbour.Stale(), egress: route.Egress, length: ethHeaderLen + length}
}

// nextHopAddr returns whose MAC a packet needs for which forward returned ask: the route's gateway or, on the link, its destination.
// forward does not return it because it is needed for very few packets.
func nextHopAddr(frame []byte, table *fib.Snapshot) netip.Addr {
	var dst netip.Addr
	if ip := frame[ethHeaderLen:]; ip[0]>>4 == 4 {
		dst = netip.AddrFrom4([4]byte(ip[16:]))
	} else {
		dst = netip.AddrFrom16([16]byte(ip[24:]))
	}
	if via := table.Lookup(dst).Via; via.IsValid() {
		return via
	}
	return dst
}
