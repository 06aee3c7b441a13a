package fib

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// attrs encodes attributes given as pairs of kind and value.
func attributes(pairs ...any) []byte {
	var b []byte
	for i := 0; i < len(pairs); i += 2 {
		b = appendAttr(b, uint16(pairs[i].(int)), pairs[i+1].([]byte))
	}
	return b
}

func u32(v uint32) []byte { return binary.NativeEndian.AppendUint32(nil, v) }

func ip4(s string) []byte { return netip.MustParseAddr(s).AsSlice() }

type rtmsg struct{ family, bits, srcBits, tos, table, protocol, scope, kind byte }

func routeMessage(kind, flags uint16, h rtmsg, rtmFlags uint32, attrs ...any) message {
	body := append([]byte{h.family, h.bits, h.srcBits, h.tos, h.table, h.protocol, h.scope, h.kind}, u32(rtmFlags)...)
	return message{kind: kind, flags: flags, body: append(body, attributes(attrs...)...)}
}

func unicast4(bits byte) rtmsg {
	return rtmsg{family: unix.AF_INET, bits: bits, table: unix.RT_TABLE_MAIN, kind: unix.RTN_UNICAST}
}

func TestParseRoute(t *testing.T) {
	via := ip4("10.0.2.2")
	nexthops := func(flags byte) []byte {
		hop := append([]byte{16, 0, flags, 0}, u32(3)...)
		return append(hop, attributes(unix.RTA_GATEWAY, via)...)
	}
	for _, c := range []struct {
		name string
		m    message
		want routeUpdate
	}{
		{"gateway, metric, mtu", routeMessage(unix.RTM_NEWROUTE, unix.NLM_F_CREATE, unicast4(24), 0, unix.RTA_DST, ip4("192.0.2.0"), unix.RTA_OIF, u32(3),
			unix.RTA_GATEWAY, via, unix.RTA_PRIORITY, u32(7), unix.RTA_METRICS, attributes(unix.RTAX_HOPLIMIT, u32(9), unix.RTAX_MTU, u32(1400))),
			routeUpdate{prefix: netip.MustParsePrefix("192.0.2.0/24"), metric: 7,
				hop: hopSpec{kind: Forward, ifindex: 3, via: nettestAddrD0, mtu: 1400}}},
		{"default route has no dst", routeMessage(unix.RTM_NEWROUTE, unix.NLM_F_REPLACE, unicast4(0), 0, unix.RTA_OIF, u32(3)),
			routeUpdate{prefix: netip.MustParsePrefix("0.0.0.0/0"), at: replace, hop: hopSpec{kind: Forward, ifindex: 3}}},
		{"dead", routeMessage(unix.RTM_DELROUTE, unix.NLM_F_APPEND, unicast4(0), unix.RTNH_F_DEAD, unix.RTA_OIF, u32(3)),
			routeUpdate{deleted: true, dead: true, prefix: netip.MustParsePrefix("0.0.0.0/0"), at: last, hop: hopSpec{kind: Forward, ifindex: 3}}},
		{"gateway of the other family", routeMessage(unix.RTM_NEWROUTE, 0, unicast4(0), 0, unix.RTA_OIF, u32(3),
			unix.RTA_VIA, append([]byte{unix.AF_INET6, 0}, netip.MustParseAddr("fe80::2").AsSlice()...)),
			routeUpdate{prefix: netip.MustParsePrefix("0.0.0.0/0"), hop: hopSpec{kind: Forward, ifindex: 3, via: netip.MustParseAddr("fe80::2")}}},
		{"encapsulation", routeMessage(unix.RTM_NEWROUTE, 0, unicast4(0), 0, unix.RTA_OIF, u32(3), unix.RTA_ENCAP, via, unix.RTA_ENCAP_TYPE, []byte{2, 0}),
			routeUpdate{prefix: netip.MustParsePrefix("0.0.0.0/0"), hop: hopSpec{kind: Unsupported, reason: Encapsulation}}},
		{"multipath", routeMessage(unix.RTM_NEWROUTE, 0, unicast4(0), 0, unix.RTA_MULTIPATH, nexthops(0)),
			routeUpdate{prefix: netip.MustParsePrefix("0.0.0.0/0"), hop: hopSpec{kind: Unsupported, reason: Multipath}}},
		{"next hop object", routeMessage(unix.RTM_NEWROUTE, 0, unicast4(0), 0, rtaNHID, u32(7), unix.RTA_MULTIPATH, nexthops(0)),
			routeUpdate{prefix: netip.MustParsePrefix("0.0.0.0/0"), hop: hopSpec{kind: Unsupported, reason: NextHopObject}}},
		{"type of service", routeMessage(unix.RTM_NEWROUTE, 0, rtmsg{family: unix.AF_INET, tos: 16, table: unix.RT_TABLE_MAIN, kind: unix.RTN_BLACKHOLE}, 0),
			routeUpdate{prefix: netip.MustParsePrefix("0.0.0.0/0"), conditional: true, hop: hopSpec{kind: Unsupported, reason: ServiceType}}},
		{"unknown type", routeMessage(unix.RTM_NEWROUTE, 0, rtmsg{family: unix.AF_INET, table: unix.RT_TABLE_MAIN, kind: unix.RTN_NAT}, 0),
			routeUpdate{prefix: netip.MustParsePrefix("0.0.0.0/0"), hop: hopSpec{kind: Unsupported, reason: RouteType}}},
		{"anycast, table as attribute", routeMessage(unix.RTM_NEWROUTE, 0, rtmsg{family: unix.AF_INET6, bits: 128, kind: unix.RTN_ANYCAST}, 0,
			unix.RTA_TABLE, u32(unix.RT_TABLE_LOCAL), unix.RTA_DST, netip.MustParseAddr("2001:db8::").AsSlice(), unix.RTA_OIF, u32(3)),
			routeUpdate{prefix: netip.MustParsePrefix("2001:db8::/128"), local: true, at: last, hop: hopSpec{kind: Local}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			u, ok := parseRoute(c.m)
			require.True(t, ok)
			require.NotZero(t, u.ident)
			u.ident = 0
			require.Equal(t, c.want, u)
		})
	}
	for name, m := range map[string]message{
		"cloned":       routeMessage(unix.RTM_NEWROUTE, 0, unicast4(32), unix.RTM_F_CLONED, unix.RTA_DST, via),
		"other table":  routeMessage(unix.RTM_NEWROUTE, 0, unicast4(32), 0, unix.RTA_TABLE, u32(1024), unix.RTA_DST, via),
		"other family": routeMessage(unix.RTM_NEWROUTE, 0, rtmsg{family: unix.AF_MPLS, table: unix.RT_TABLE_MAIN}, 0),
		"short":        {kind: unix.RTM_NEWROUTE, body: make([]byte, 11)},
		"bad length":   routeMessage(unix.RTM_NEWROUTE, 0, unicast4(33), 0, unix.RTA_DST, via),
		"bad dst":      routeMessage(unix.RTM_NEWROUTE, 0, unicast4(24), 0, unix.RTA_DST, []byte{1, 2, 3}),
	} {
		_, ok := parseRoute(m)
		require.False(t, ok, name)
	}
}

var nettestAddrD0 = netip.MustParseAddr("10.0.2.2")

// A deletion finds its route although what changes by itself has changed, and finds no other.
func TestIdent(t *testing.T) {
	ident := func(m message) uint32 {
		u, ok := parseRoute(m)
		require.True(t, ok)
		return u.ident
	}
	hop := func(flags byte, ifindex uint32) []byte { return append([]byte{8, 0, flags, 0}, u32(ifindex)...) }
	base := ident(routeMessage(unix.RTM_NEWROUTE, 0, unicast4(24), 0, unix.RTA_DST, ip4("192.0.2.0"), unix.RTA_OIF, u32(3)))
	require.Equal(t, base, ident(routeMessage(unix.RTM_DELROUTE, 0, unicast4(24), unix.RTNH_F_LINKDOWN, unix.RTA_DST, ip4("192.0.2.0"), unix.RTA_OIF, u32(3),
		unix.RTA_CACHEINFO, u32(5))))
	require.NotEqual(t, base, ident(routeMessage(unix.RTM_NEWROUTE, 0, unicast4(24), 0, unix.RTA_DST, ip4("192.0.2.0"), unix.RTA_OIF, u32(4))))
	other := unicast4(24)
	other.protocol = unix.RTPROT_BGP
	require.NotEqual(t, base, ident(routeMessage(unix.RTM_NEWROUTE, 0, other, 0, unix.RTA_DST, ip4("192.0.2.0"), unix.RTA_OIF, u32(3))))
	require.NotEqual(t, base, ident(routeMessage(unix.RTM_NEWROUTE, 0, unicast4(24), 0, unix.RTA_DST, ip4("192.0.2.0"), unix.RTA_OIF, u32(3),
		unix.RTA_PREFSRC, ip4("10.0.0.1"))))

	multi := ident(routeMessage(unix.RTM_NEWROUTE, 0, unicast4(24), 0, unix.RTA_MULTIPATH, append(hop(0, 3), hop(0, 4)...)))
	require.Equal(t, multi, ident(routeMessage(unix.RTM_NEWROUTE, 0, unicast4(24), 0, unix.RTA_MULTIPATH, append(hop(unix.RTNH_F_DEAD, 3), hop(0, 4)...))))
	require.NotEqual(t, multi, ident(routeMessage(unix.RTM_NEWROUTE, 0, unicast4(24), 0, unix.RTA_MULTIPATH, append(hop(0, 3), hop(0, 5)...))))
}

func TestParseNeigh(t *testing.T) {
	neigh := func(family byte, state uint16, flags byte, attrs ...any) message {
		body := make([]byte, unix.SizeofNdMsg)
		body[0] = family
		binary.NativeEndian.PutUint32(body[4:], 3)
		binary.NativeEndian.PutUint16(body[8:], state)
		body[10] = flags
		return message{kind: unix.RTM_NEWNEIGH, body: append(body, attributes(attrs...)...)}
	}
	dst, mac := ip4("10.0.2.2"), []byte{2, 0, 0, 0, 2, 2}
	for state, want := range map[uint16]uint64{
		unix.NUD_PERMANENT:  0x0001_0200_0000_0202,
		unix.NUD_REACHABLE:  0x0001_0200_0000_0202,
		unix.NUD_DELAY:      0x0001_0200_0000_0202,
		unix.NUD_PROBE:      0x0001_0200_0000_0202,
		unix.NUD_NOARP:      0x0001_0200_0000_0202,
		unix.NUD_STALE:      0x0003_0200_0000_0202,
		unix.NUD_INCOMPLETE: 0,
		unix.NUD_FAILED:     0,
		unix.NUD_NONE:       0,
	} {
		u, ok := parseNeigh(neigh(unix.AF_INET, state, 0, unix.NDA_DST, dst, unix.NDA_LLADDR, mac))
		require.True(t, ok)
		require.Equal(t, neighUpdate{ifindex: 3, addr: nettestAddrD0, word: want}, u, state)
	}
	u, ok := parseNeigh(neigh(unix.AF_INET, unix.NUD_PERMANENT, 0, unix.NDA_DST, dst, unix.NDA_LLADDR, mac[:4]))
	require.True(t, ok)
	require.Zero(t, u.word, "no Ethernet address")
	for _, m := range []message{
		neigh(unix.AF_INET, unix.NUD_PERMANENT, unix.NTF_PROXY, unix.NDA_DST, dst),
		neigh(unix.AF_BRIDGE, unix.NUD_PERMANENT, 0, unix.NDA_LLADDR, mac),
		neigh(unix.AF_INET, unix.NUD_NOARP, 0, unix.NDA_DST, ip4("224.0.0.5"), unix.NDA_LLADDR, mac),
	} {
		_, ok := parseNeigh(m)
		require.False(t, ok)
	}
}

func TestParseLink(t *testing.T) {
	link := func(family byte, flags uint32, attrs ...any) message {
		body := append([]byte{family, 0, 0, 0}, u32(3)...)
		body = append(append(body, u32(flags)...), u32(0)...)
		return message{kind: unix.RTM_NEWLINK, body: append(body, attributes(attrs...)...)}
	}
	u, ok := parseLink(link(unix.AF_UNSPEC, unix.IFF_UP|unix.IFF_LOWER_UP, unix.IFLA_IFNAME, []byte("r0\x00"), unix.IFLA_MTU, u32(1400),
		unix.IFLA_ADDRESS, []byte{2, 0, 0, 0, 1, 1}))
	require.True(t, ok)
	require.Equal(t, linkUpdate{ifindex: 3, name: "r0", up: true, mtu: 1400, mac: [6]byte{2, 0, 0, 0, 1, 1}}, u)
	u, ok = parseLink(link(unix.AF_UNSPEC, unix.IFF_UP))
	require.True(t, ok)
	require.False(t, u.up, "no carrier")
	_, ok = parseLink(link(unix.AF_BRIDGE, unix.IFF_UP))
	require.False(t, ok, "a bridge speaking of its port")
}

func TestParseAddr(t *testing.T) {
	addr := func(family, bits byte, attrs ...any) message {
		return message{kind: unix.RTM_NEWADDR, body: append(append([]byte{family, bits, 0, 0}, u32(3)...), attributes(attrs...)...)}
	}
	u, ok := parseAddr(addr(unix.AF_INET, 32, unix.IFA_ADDRESS, ip4("10.0.0.2"), unix.IFA_LOCAL, ip4("10.0.0.1")))
	require.True(t, ok)
	require.Equal(t, addrUpdate{ifindex: 3, addr: netip.MustParsePrefix("10.0.0.1/32"), usable: true}, u, "the peer's address is not ours")
	u, ok = parseAddr(addr(unix.AF_INET6, 64, unix.IFA_ADDRESS, netip.MustParseAddr("2001:db8::1").AsSlice(), unix.IFA_FLAGS, u32(unix.IFA_F_TENTATIVE)))
	require.True(t, ok)
	require.False(t, u.usable)
	_, ok = parseAddr(addr(unix.AF_INET, 24))
	require.False(t, ok)
}

// Whatever comes, nothing panics and the state stays whole.
func FuzzApply(f *testing.F) {
	c := &conn{}
	f.Add(c.request(unix.RTM_NEWROUTE, 0, routeMessage(0, 0, unicast4(24), 0, unix.RTA_DST, ip4("192.0.2.0"), unix.RTA_OIF, u32(2),
		unix.RTA_METRICS, attributes(unix.RTAX_MTU, u32(1400)), unix.RTA_MULTIPATH, []byte{8, 0, 0, 0, 2, 0, 0, 0}).body))
	f.Add(c.request(unix.RTM_NEWNEIGH, 0, useNeighbour(2, nettestAddrD0)))
	f.Add(c.request(unix.RTM_NEWLINK, 0, append(make([]byte, 16), attributes(unix.IFLA_IFNAME, []byte("p0\x00"))...)))
	f.Add(c.request(unix.RTM_NEWADDR, 0, append([]byte{2, 24, 0, 0, 2, 0, 0, 0}, attributes(unix.IFA_LOCAL, ip4("10.0.0.1"))...)))
	f.Add(c.request(unix.RTM_NEWRULE, 0, append(make([]byte, 12), attributes(unix.FRA_PRIORITY, u32(1))...)))
	f.Fuzz(func(t *testing.T, b []byte) {
		s := newState(modelPorts)
		s.link(linkUpdate{ifindex: 2, name: "p0"})
		for m, rest, ok := nextMessage(b); ok; m, rest, ok = nextMessage(rest) {
			s.apply(m)
			_, _, _ = parseRule(m)
		}
		s.snapshot(false)
		refs := map[hopID]int{}
		countRefs(&s.v4, refs)
		countRefs(&s.v6, refs)
		require.Len(t, s.hops.index, len(refs))
	})
}

func TestForeignRulesOf(t *testing.T) {
	own := []Rule{{Table: 255}, {Table: 254, Priority: 32766}, {Table: 253, Priority: 32767}, {IPv6: true, Table: 255}, {IPv6: true, Table: 254, Priority: 32766}}
	allPlain := []bool{true, true, true, true, true}
	require.Empty(t, foreignRules(own, allPlain))
	require.Empty(t, foreignRules(nil, nil), "a kernel without policy routing")
	require.Empty(t, foreignRules(own[:3], allPlain[:3]), "a kernel without IPv6")
	require.Equal(t, []Rule{{Table: 255, Missing: true}}, foreignRules(own[1:], allPlain[1:]))
	require.Equal(t, []Rule{{Table: 254, Priority: 32766}, {Table: 254, Priority: 32766, Missing: true}},
		foreignRules(own, []bool{true, false, true, true, true}), "main for some packets only")
	require.Equal(t, []Rule{{Table: 7, Priority: 9}}, foreignRules(append(own, Rule{Table: 7, Priority: 9}), append(allPlain, true)))
}
