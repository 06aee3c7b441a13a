package host

import (
	"fmt"
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"weir/internal/nettest"
)

// checkPort is CheckPort in the namespace.
func checkPort(t *testing.T, ns *nettest.NS, name string) error {
	t.Helper()
	var answer error
	inside(t, ns, func() error {
		answer = CheckPort(name)
		return nil
	})
	return answer
}

func TestCheckPort(t *testing.T) {
	t.Setenv("SSH_CONNECTION", "")
	ns := newRouter(t)
	require.NoError(t, checkPort(t, ns, "in0"))
	require.EqualError(t, checkPort(t, ns, "eth9"), "port eth9: no such interface in this network namespace: ip link lists those there are")
	require.ErrorIs(t, checkPort(t, ns, "eth9"), ErrNoInterface)
	require.ErrorIs(t, checkPort(t, ns, ""), ErrNoInterface)
	require.ErrorIs(t, checkPort(t, ns, "a-name-longer-than-15-bytes"), ErrNoInterface)
	require.ErrorIs(t, checkPort(t, ns, "lo"), ErrLoopback)

	run(t, ns, "ip link add br0 type bridge")
	run(t, ns, "ip link set p1 master br0")
	run(t, ns, "ip link add mv0 link p0 type macvlan")
	run(t, ns, "ip tuntap add tap0 mode tap")
	run(t, ns, "ip tuntap add tun0 mode tun")
	require.EqualError(t, checkPort(t, ns, "br0"),
		"port br0: kind of interface not supported (bridge): name a physical, virtio, veth or tap interface")
	require.ErrorIs(t, checkPort(t, ns, "br0"), ErrUnsupportedLink)
	require.EqualError(t, checkPort(t, ns, "p1"),
		"port p1: member of another interface (bridge br0): take it out (ip link set p1 nomaster), or use another interface")
	require.ErrorIs(t, checkPort(t, ns, "p1"), ErrMember)
	require.ErrorIs(t, checkPort(t, ns, "mv0"), ErrUnsupportedLink)
	require.ErrorIs(t, checkPort(t, ns, "tun0"), ErrUnsupportedLink)
	require.NoError(t, checkPort(t, ns, "tap0"))

	run(t, ns, "ip link property add dev in0 altname another-name-of-in0")
	require.ErrorContains(t, checkPort(t, ns, "another-name-of-in0"), "it is another name of in0, use that")
}

func TestKinds(t *testing.T) {
	attrs := netlink.LinkAttrs{Name: "x", EncapType: "ether"}
	for _, l := range []netlink.Link{
		&netlink.Bond{LinkAttrs: attrs}, &netlink.Bridge{LinkAttrs: attrs}, &netlink.Vlan{LinkAttrs: attrs}, &netlink.Macvlan{LinkAttrs: attrs},
		&netlink.Macvtap{Macvlan: netlink.Macvlan{LinkAttrs: attrs}}, &netlink.IPVlan{LinkAttrs: attrs}, &netlink.Vxlan{LinkAttrs: attrs},
		&netlink.Vrf{LinkAttrs: attrs}, &netlink.GenericLink{LinkAttrs: attrs, LinkType: "team"}, &netlink.Wireguard{LinkAttrs: attrs},
	} {
		err := checkKind(l)
		require.ErrorIs(t, err, ErrUnsupportedLink, l.Type())
		require.ErrorContains(t, err, "("+l.Type()+")")
	}
	for _, l := range []netlink.Link{&netlink.Device{LinkAttrs: attrs}, &netlink.Veth{LinkAttrs: attrs}, &netlink.Tuntap{LinkAttrs: attrs}} {
		require.NoError(t, checkKind(l), l.Type())
	}
	require.ErrorIs(t, checkKind(&netlink.Device{LinkAttrs: netlink.LinkAttrs{EncapType: "loopback", Flags: net.FlagLoopback}}), ErrLoopback)
	require.ErrorIs(t, checkKind(&netlink.Device{LinkAttrs: netlink.LinkAttrs{EncapType: "infiniband"}}), ErrUnsupportedLink)
	require.EqualError(t, memberError("eth1", &netlink.Bond{LinkAttrs: netlink.LinkAttrs{Name: "bond0"}}),
		"port eth1: member of another interface (bond bond0): take it out (ip link set eth1 nomaster), or use another interface")
}

func TestDefaultRoute(t *testing.T) {
	t.Setenv("SSH_CONNECTION", "")
	for _, route := range []struct{ line, reason string }{
		{"ip route add default via 10.0.1.2 dev in0", "carries the default route"},
		{"ip route add default dev in0 metric 500", "carries the default route"},
		{"ip -6 route add default via 2001:db8:1::2 dev in0", "carries the IPv6 default route"},
		{"ip route add default nexthop via 10.0.2.2 dev out0 nexthop via 10.0.1.2 dev in0", "carries the default route"},
	} {
		t.Run(route.line, func(t *testing.T) {
			ns := newRouter(t)
			for link, cidrs := range map[string][]string{"in0": {"10.0.1.1/24", "2001:db8:1::1/64"}, "out0": {"10.0.2.1/24"}} {
				require.NoError(t, ns.Up(link))
				for _, cidr := range cidrs {
					require.NoError(t, ns.Addr(link, cidr))
				}
			}
			run(t, ns, "ip route add blackhole default metric 9999")
			run(t, ns, "ip route add default dev in0 table 77")
			require.NoError(t, checkPort(t, ns, "in0"), "neither a blackhole nor another table makes it the management interface")
			run(t, ns, route.line)
			require.EqualError(t, checkPort(t, ns, "in0"), "port in0: management interface ("+route.reason+
				"): use another interface, or set allow_management: true for it")
			require.ErrorIs(t, checkPort(t, ns, "in0"), ErrManagement)
		})
	}
}

func TestDefaultRouteByNexthopObject(t *testing.T) {
	t.Setenv("SSH_CONNECTION", "")
	ns := newRouter(t)
	require.NoError(t, ns.Up("in0"))
	require.NoError(t, ns.Up("p0"))
	require.NoError(t, ns.Ready("in0"))
	require.NoError(t, ns.Addr("in0", "10.0.1.1/24"))
	run(t, ns, "ip nexthop add id 7 via 10.0.1.2 dev in0")
	run(t, ns, "ip route add default nhid 7")
	require.ErrorIs(t, checkPort(t, ns, "in0"), ErrManagement)
	require.NoError(t, checkPort(t, ns, "out0"))
}

func TestLoginSession(t *testing.T) {
	ns := newRouter(t)
	for link, cidrs := range map[string][]string{
		"in0": {"10.0.1.1/24", "fe80::9/64"}, "out0": {"10.0.2.1/24", "fe80::9/64"}, "lo": {"192.0.2.1/32"},
	} {
		require.NoError(t, ns.Up(link))
		for _, cidr := range cidrs {
			require.NoError(t, ns.Addr(link, cidr))
		}
	}
	for _, tt := range []struct{ ssh, in0, out0 string }{
		{"10.0.1.2 40000 10.0.1.1 22", "has 10.0.1.1, the address of this login session", ""},
		{"::ffff:10.0.1.2 40000 ::ffff:10.0.1.1 22", "has 10.0.1.1, the address of this login session", ""},
		{"10.0.2.7 40000 192.0.2.1 22", "", "leads to 10.0.2.7, the client of this login session"},
		{"fe80::1%in0 40000 fe80::9%in0 22", "has fe80::9%in0, the address of this login session", ""},
		{"10.0.1.2 40000 198.51.100.1 22", "", ""}, // in another network namespace
		{"203.0.113.1 40000 192.0.2.1 22", "", ""}, // no route to the client
		{"garbage", "", ""},
	} {
		t.Setenv("SSH_CONNECTION", tt.ssh)
		for port, reason := range map[string]string{"in0": tt.in0, "out0": tt.out0} {
			err := checkPort(t, ns, port)
			if reason == "" {
				require.NoError(t, err, tt.ssh)
				continue
			}
			require.ErrorIs(t, err, ErrManagement, tt.ssh)
			require.ErrorContains(t, err, fmt.Sprintf("(%s)", reason))
		}
	}
}

func TestParseSSHConnection(t *testing.T) {
	s, ok := parseSSHConnection("2001:db8::1 50000 fe80::2%eth0 22")
	require.True(t, ok)
	require.Equal(t, loginSession{netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("fe80::2%eth0")}, s)
	for _, text := range []string{"", "a b c d", "10.0.0.1 1 b 22", "10.0.0.1 1 10.0.0.2", "UNKNOWN 65535 UNKNOWN 65535"} {
		_, ok = parseSSHConnection(text)
		require.False(t, ok, text)
	}
}
