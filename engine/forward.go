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
	protoRouting  = 43
	protoDestOpts = 60
)

// hop is the outcome of the decision on one packet.
type hop struct {
	// reason is forwarded, or why the packet is dropped.
	reason Reason
	// egress is the index of the port the packet leaves through.
	egress int
	// length is what the frame is cut to: the padding behind a short IP packet never leaks.
	length int
	// unresolved is the address to resolve on egress when reason is DropNeighbourUnresolved.
	unresolved netip.Addr
}

// forward decides where the frame goes and rewrites it for its next hop: parse, route, neighbour, rewrite, in the order of the
// kernel's ip_rcv and ip_forward. It changes the frame only when it returns forwarded. partial says that the ingress delivers locally
// produced segments with partial checksums (see completeChecksum).
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
	headerLen := int(ip[0]&0x0f) * 4
	if ip[0]>>4 != 4 || headerLen < ipv4MinHeaderLen || headerLen > len(ip) {
		return hop{reason: DropMalformedHeader}
	}
	total := int(binary.BigEndian.Uint16(ip[2:]))
	if total < headerLen || total > len(ip) {
		return hop{reason: DropMalformedLength}
	}
	ip = ip[:total]
	if fold(sum(ip[:headerLen], 0)) != 0xffff {
		return hop{reason: DropBadChecksum}
	}
	if headerLen != ipv4MinHeaderLen {
		return hop{reason: DropOptions}
	}
	src, dst := [4]byte(ip[12:16]), [4]byte(ip[16:20])
	if martianIPv4Source(src) {
		return hop{reason: DropMartianSource}
	}
	if dst[0] == 0 || dst[0] == 127 || dst[0] >= 224 {
		return hop{reason: DropMartianDestination}
	}
	if ip[8] <= 1 {
		return hop{reason: DropTTLExpired}
	}
	h := nextHop(frame, netip.AddrFrom4(dst), total, table)
	if h.reason != forwarded {
		return h
	}
	decrementTTL(ip)
	// A partial checksum is never left on a fragment: the kernel completes it before it cuts.
	if partial && binary.BigEndian.Uint16(ip[6:])&0x3fff == 0 {
		completeChecksum(ip[ipv4MinHeaderLen:], ip[9], sum(ip[12:20], 0))
	}
	return h
}

// martianIPv4Source reports whether src is an address that no packet on the wire may come from (RFC 1812, 5.3.7).
func martianIPv4Source(src [4]byte) bool {
	return src[0] == 0 || src[0] == 127 || src[0] >= 224
}

func forwardIPv6(frame []byte, partial bool, table *fib.Snapshot) hop {
	if len(frame) < ethHeaderLen+ipv6HeaderLen {
		return hop{reason: DropMalformedHeader}
	}
	ip := frame[ethHeaderLen:]
	if ip[0]>>4 != 6 {
		return hop{reason: DropMalformedHeader}
	}
	total := ipv6HeaderLen + int(binary.BigEndian.Uint16(ip[4:]))
	if total > len(ip) {
		return hop{reason: DropMalformedLength}
	}
	ip = ip[:total]
	src, dst := netip.AddrFrom16([16]byte(ip[8:24])), netip.AddrFrom16([16]byte(ip[24:40]))
	switch {
	case src.IsMulticast() || src.IsUnspecified() || src.IsLoopback():
		return hop{reason: DropMartianSource}
	case dst.IsMulticast() || dst.IsUnspecified() || dst.IsLoopback() || dst.Is4In6():
		return hop{reason: DropMartianDestination}
	case src.IsLinkLocalUnicast() || dst.IsLinkLocalUnicast():
		return hop{reason: DropScope}
	}
	next := ip[6]
	if next == protoHopByHop {
		return hop{reason: DropHopByHop}
	}
	if ip[7] <= 1 {
		return hop{reason: DropTTLExpired}
	}
	h := nextHop(frame, dst, total, table)
	if h.reason != forwarded {
		return h
	}
	ip[7]--
	if partial {
		completeIPv6(ip, next)
	}
	return h
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

// nextHop routes dst, checks that the egress takes a packet of length bytes, and writes the MAC addresses.
func nextHop(frame []byte, dst netip.Addr, length int, table *fib.Snapshot) hop {
	route := table.Lookup(dst)
	if route == nil {
		return hop{reason: DropNoRoute}
	}
	if route.Kind != fib.Forward {
		return hop{reason: reasonOfKind(route.Kind)}
	}
	out := table.Port(route.Egress)
	if !out.Up {
		return hop{reason: DropEgressDown, egress: route.Egress}
	}
	if length > out.MTU || (route.MTU != 0 && length > route.MTU) {
		return hop{reason: DropTooBig, egress: route.Egress}
	}
	neighbour, address := route.Next, route.Via
	if neighbour == nil && !address.IsValid() {
		neighbour, address = table.Neighbour(route.Egress, dst), dst
	}
	if neighbour == nil {
		return hop{reason: DropNeighbourUnresolved, egress: route.Egress, unresolved: address}
	}
	mac, ok := neighbour.MAC()
	if !ok {
		return hop{reason: DropNeighbourUnresolved, egress: route.Egress, unresolved: address}
	}
	binary.BigEndian.PutUint32(frame, uint32(mac>>16))
	binary.BigEndian.PutUint16(frame[4:], uint16(mac))
	copy(frame[6:12], out.MAC[:])
	return hop{egress: route.Egress, length: ethHeaderLen + length}
}

func reasonOfKind(k fib.Kind) Reason {
	switch k {
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
