package fib

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLiteral(t *testing.T) {
	addr, prefix := netip.MustParseAddr, netip.MustParsePrefix
	gateway, absent := addr("10.0.1.9"), addr("fe80::9")
	s := NewSnapshot(Literal{
		Ports: []PortInfo{{Name: "a", MTU: 1500}, {Name: "b", Up: true, MTU: 9000, MAC: [6]byte{2, 0, 0, 0, 0, 1}}},
		Routes: []LiteralRoute{
			{prefix("10.0.1.0/24"), Route{Kind: Forward, Egress: 1}},
			{prefix("192.0.2.0/24"), Route{Kind: Forward, Egress: 1, Via: gateway, MTU: 1400}},
			{prefix("192.0.3.0/24"), Route{Kind: Forward, Egress: 1, Via: gateway, MTU: 1400}},
			{prefix("2001:db8::/32"), Route{Kind: Forward, Egress: 1, Via: absent}},
			{prefix("192.0.2.128/25"), Route{Kind: Blackhole, Egress: -1}},
		},
		Neighbours: []LiteralNeighbour{
			{1, gateway, [6]byte{2, 0, 0, 0, 0xab, 0xcd}, Reachable},
			{1, addr("10.0.1.7"), [6]byte{2, 0, 0, 0, 0, 7}, Stale},
			{1, addr("10.0.1.8"), [6]byte{2, 0, 0, 0, 0, 8}, Unusable},
		},
	})
	require.Equal(t, 2, s.NumPorts())
	require.Equal(t, PortInfo{Name: "b", Up: true, MTU: 9000, MAC: [6]byte{2, 0, 0, 0, 0, 1}}, *s.Port(1))
	require.Equal(t, 4, s.Count(Forward))

	r := s.Lookup(addr("192.0.2.1"))
	require.Equal(t, gateway, r.Via)
	require.Same(t, r, s.Lookup(addr("192.0.3.1")), "equal routes share one")
	require.Same(t, s.Neighbour(1, gateway), r.Next)
	mac, ok := r.Next.MAC()
	require.Equal(t, []any{uint64(0x02_00_00_00_ab_cd), true, false}, []any{mac, ok, r.Next.Stale()})
	require.Equal(t, Blackhole, s.Lookup(addr("192.0.2.128")).Kind)
	require.Nil(t, s.Lookup(addr("10.0.1.7")).Next, "on the link")
	require.Nil(t, s.Lookup(addr("8.8.8.8")))

	_, ok = s.Lookup(addr("2001:db8::1")).Next.MAC()
	require.False(t, ok, "the gateway has no entry")
	for host, want := range map[string][2]bool{"10.0.1.7": {true, true}, "10.0.1.8": {false, false}} {
		n := s.Neighbour(1, addr(host))
		_, ok := n.MAC()
		require.Equal(t, want, [2]bool{ok, n.Stale()}, host)
	}
	require.Nil(t, s.Neighbour(1, addr("10.0.1.10")))
	require.Nil(t, s.Neighbour(0, gateway))
}
