package engine

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/engine/fib"
	"weir/internal/nettest"
)

// verdict is what the reference says of a frame.
type verdict struct {
	reason Reason
	egress int
	ask    netip.Addr
	out    []byte
}

// reference is forward as one would write it for reading alone: it scans lists, copies, and computes every checksum anew. What the two
// have in common is the order of the rules, which is the kernel's.
func reference(l fib.Literal, frame []byte, partial bool) verdict {
	if len(frame) < 14 {
		return verdict{reason: DropMalformedHeader}
	}
	packet := slices.Clone(frame[14:])
	switch [2]byte(frame[12:]) {
	case [2]byte{0x08, 0x00}:
		return referenceIPv4(l, packet, partial)
	case [2]byte{0x86, 0xdd}:
		return referenceIPv6(l, packet, partial)
	}
	return verdict{reason: DropNotIP}
}

func referenceIPv4(l fib.Literal, p []byte, partial bool) verdict {
	if len(p) < 20 || p[0]>>4 != 4 || p[0]&15 < 5 || len(p) < int(p[0]&15)*4 {
		return verdict{reason: DropMalformedHeader}
	}
	headerLen, total := int(p[0]&15)*4, int(p[2])<<8|int(p[3])
	if nettest.Checksum(0, p[:headerLen]) != 0 {
		return verdict{reason: DropBadChecksum}
	}
	if total < headerLen || total > len(p) {
		return verdict{reason: DropMalformedLength}
	}
	p = p[:total]
	src, dst := netip.AddrFrom4([4]byte(p[12:16])), netip.AddrFrom4([4]byte(p[16:20]))
	martian := []string{"0.0.0.0/8", "127.0.0.0/8", "224.0.0.0/4", "240.0.0.0/4"}
	if inAny(src, martian) {
		return verdict{reason: DropMartianSource}
	}
	if inAny(dst, martian) {
		return verdict{reason: DropMartianDestination}
	}
	route, reason := referenceRoute(l, dst)
	if reason != forwarded {
		return verdict{reason: reason}
	}
	if headerLen > 20 {
		return verdict{reason: DropOptions}
	}
	if p[8] < 2 {
		return verdict{reason: DropTTLExpired}
	}
	p[8]--
	p = rightChecksum(p)
	if offset, more := binary.BigEndian.Uint16(p[6:])&0x1fff, p[6]&0x20 != 0; partial && offset == 0 && !more {
		finishChecksum(p, p[9], 20)
	}
	return referenceNextHop(l, route, dst, p)
}

func referenceIPv6(l fib.Literal, p []byte, partial bool) verdict {
	if len(p) < 40 || p[0]>>4 != 6 {
		return verdict{reason: DropMalformedHeader}
	}
	src, dst := netip.AddrFrom16([16]byte(p[8:24])), netip.AddrFrom16([16]byte(p[24:40]))
	martian := []string{"::/128", "::1/128", "ff00::/8"}
	if src.Is4In6() || inAny(src, martian) {
		return verdict{reason: DropMartianSource}
	}
	if dst.Is4In6() || inAny(dst, martian) {
		return verdict{reason: DropMartianDestination}
	}
	total := 40 + int(p[4])<<8 + int(p[5])
	if total > len(p) {
		return verdict{reason: DropMalformedLength}
	}
	p = p[:total]
	if p[6] == 0 {
		return verdict{reason: DropHopByHop}
	}
	if inAny(dst, []string{"fe80::/10"}) {
		return verdict{reason: DropScope}
	}
	route, reason := referenceRoute(l, dst)
	switch {
	case reason != forwarded:
		return verdict{reason: reason}
	case p[7] < 2:
		return verdict{reason: DropTTLExpired}
	case inAny(src, []string{"fe80::/10"}):
		return verdict{reason: DropScope}
	}
	p[7]--
	if partial {
		protocol, at := p[6], 40
		for protocol == 60 && at+8 <= len(p) {
			protocol, at = p[at], at+(int(p[at+1])+1)*8
		}
		if at < len(p) {
			finishChecksum(p, protocol, at)
		}
	}
	return referenceNextHop(l, route, dst, p)
}

func inAny(a netip.Addr, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return netip.MustParsePrefix(p).Contains(a) })
}

// referenceRoute looks through all routes for the longest prefix.
func referenceRoute(l fib.Literal, dst netip.Addr) (fib.Route, Reason) {
	best, found := fib.Route{}, -1
	for _, r := range l.Routes {
		if r.Prefix.Contains(dst) && r.Prefix.Bits() > found {
			best, found = r.Route, r.Prefix.Bits()
		}
	}
	if found < 0 {
		return best, DropNoRoute
	}
	return best, map[fib.Kind]Reason{
		fib.Forward: forwarded, fib.Local: DropToHost, fib.Broadcast: DropToHost, fib.Multicast: DropMartianDestination,
		fib.Blackhole: DropBlackhole, fib.Unreachable: DropUnreachable, fib.Prohibit: DropProhibit,
		fib.NotAPort: DropEgressNotAPort, fib.Unsupported: DropUnsupportedRoute,
	}[best.Kind]
}

// finishChecksum completes the checksum of the segment that begins at an offset if it holds the pseudo header's sum.
func finishChecksum(p []byte, protocol byte, segment int) {
	field, ok := map[byte]int{6: segment + 16, 17: segment + 6}[protocol]
	if !ok || field+2 > len(p) {
		return
	}
	given := binary.BigEndian.Uint16(p[field:])
	want := binary.BigEndian.Uint16(partialChecksum(protocol, segment)(slices.Clone(p))[field:])
	if given != want {
		return
	}
	check := nettest.Checksum(0, p[segment:]) // the pseudo header's sum is in the field
	if check == 0 {
		check = 0xffff
	}
	binary.BigEndian.PutUint16(p[field:], check)
}

func referenceNextHop(l fib.Literal, route fib.Route, dst netip.Addr, p []byte) verdict {
	port := l.Ports[route.Egress]
	if !port.Up {
		return verdict{reason: DropEgressDown, egress: route.Egress}
	}
	if len(p) > port.MTU || route.MTU > 0 && len(p) > route.MTU {
		return verdict{reason: DropTooBig, egress: route.Egress}
	}
	hop := dst
	if route.Via.IsValid() {
		hop = route.Via
	}
	for _, n := range l.Neighbours {
		if n.Port != route.Egress || n.Addr != hop || n.State == fib.Unusable {
			continue
		}
		v := verdict{egress: route.Egress, out: nettest.Ethernet(n.MAC[:], net.HardwareAddr(port.MAC[:]), p)}
		if n.State == fib.Stale {
			v.ask = hop
		}
		return v
	}
	return verdict{reason: DropNeighbourUnresolved, egress: route.Egress, ask: hop}
}

// What FuzzForward does to a frame before it goes in, so that mutations reach beyond the first checks: bits of its second argument. The
// upper byte chooses a destination of testTable.
const (
	fuzzPartial = 1 << iota // the port delivers partial checksums
	fuzzRightLength
	fuzzRightChecksum // of the IPv4 header
	fuzzDestination
	fuzzPartialUDP
	fuzzPartialTCP
)

// repair does it.
func repair(frame []byte, how uint16, destinations []netip.Addr) []byte {
	if len(frame) < 14+20 {
		return frame
	}
	p := frame[14:]
	dst := destinations[int(how>>8)%len(destinations)]
	switch v6 := binary.BigEndian.Uint16(frame[12:]) == etherIPv6; {
	case v6 && len(p) >= 40:
		if how&fuzzRightLength != 0 {
			binary.BigEndian.PutUint16(p[4:], uint16(len(p)-40))
		}
		if how&fuzzDestination != 0 && dst.Is6() {
			copy(p[24:], dst.AsSlice())
		}
		repairSegment(p, how, p[6], 40)
	case !v6:
		if how&fuzzRightLength != 0 {
			binary.BigEndian.PutUint16(p[2:], uint16(len(p)))
		}
		if how&fuzzDestination != 0 && dst.Is4() {
			copy(p[16:], dst.AsSlice())
		}
		repairSegment(p, how, p[9], 20)
		if headerLen := int(p[0]&15) * 4; how&fuzzRightChecksum != 0 && headerLen >= 20 && headerLen <= len(p) {
			rightChecksum(p)
		}
	}
	return frame
}

func repairSegment(p []byte, how uint16, protocol byte, segment int) {
	if version := p[0] >> 4; version != map[int]byte{20: 4, 40: 6}[segment] {
		return
	}
	if how&fuzzPartialUDP != 0 && protocol == protoUDP && len(p) >= segment+8 || how&fuzzPartialTCP != 0 && protocol == protoTCP && len(p) >= segment+18 {
		partialChecksum(protocol, segment)(p)
	}
}

func FuzzForward(f *testing.F) {
	for _, c := range forwardCases() {
		how := uint16(0)
		if c.partial {
			how |= fuzzPartial
		}
		f.Add(c.frame, how)
	}
	l := testLiteral()
	table := fib.NewSnapshot(l)
	var destinations []netip.Addr
	for _, r := range l.Routes {
		destinations = append(destinations, r.Prefix.Addr().Next())
	}
	for _, n := range l.Neighbours {
		destinations = append(destinations, n.Addr)
	}
	f.Fuzz(func(t *testing.T, frame []byte, how uint16) {
		frame = repair(slices.Clone(frame), how, destinations)
		partial := how&fuzzPartial != 0
		want := reference(l, frame, partial)

		area := append(slices.Clone(frame), bytes.Repeat([]byte{0xa5}, 32)...)
		before := slices.Clone(area)
		got := forward(area[:len(frame):len(frame)], partial, table)

		require.Equal(t, want.reason.String(), got.reason.String())
		require.Equal(t, want.egress, got.egress)
		require.Equal(t, want.ask.IsValid(), got.ask)
		if got.ask {
			require.Equal(t, want.ask, nextHopAddr(area, table))
		}
		require.Equal(t, len(want.out), got.length)
		require.Equal(t, want.out, append([]byte(nil), area[:got.length]...))
		require.Equal(t, before[got.length:], area[got.length:])
	})
}
