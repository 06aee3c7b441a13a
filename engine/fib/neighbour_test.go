package fib

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"weir/internal/nettest"
)

// macOf returns a MAC as Neighbour does.
func macOf(a net.HardwareAddr) uint64 {
	var mac uint64
	for _, b := range a {
		mac = mac<<8 | uint64(b)
	}
	return mac
}

// reaches waits until a neighbour's usable address is mac.
func reaches(t *testing.T, table *Table, port int, addr netip.Addr, mac net.HardwareAddr) *Neighbour {
	t.Helper()
	var n *Neighbour
	soon(t, func() bool {
		if n = table.Snapshot().Neighbour(port, addr); n == nil {
			return false
		}
		got, ok := n.MAC()
		return ok && got == macOf(mac)
	}, addr, mac)
	return n
}

var otherMAC = net.HardwareAddr{2, 0, 0, 0, 0xaa, 0xbb}

func TestNeighbourFollowsInPlace(t *testing.T) {
	top := nettest.T0(t)
	table := watch(t, top)
	require.NoError(t, top.Rtr.Route("192.0.2.0/24", "10.0.2.2", ""))
	leads(t, table, "192.0.2.1", "port 1 via 10.0.2.2 mtu 0")
	route := table.Snapshot().Lookup(netip.MustParseAddr("192.0.2.1"))
	_, ok := route.Next.MAC()
	require.False(t, ok)
	require.Nil(t, table.Snapshot().Neighbour(port1, nettest.AddrD0))

	require.NoError(t, top.Rtr.Neigh("r1", "10.0.2.2", nettest.MACd0))
	n := reaches(t, table, port1, nettest.AddrD0, nettest.MACd0)
	require.Same(t, n, route.Next, "the route that was looked up before knows too")

	before := table.Snapshot()
	require.NoError(t, top.Rtr.Neigh("r1", "10.0.2.2", otherMAC))
	reaches(t, table, port1, nettest.AddrD0, otherMAC)
	require.Same(t, before, table.Snapshot(), "a new MAC makes no new snapshot")

	// Every state, and which of them may be used.
	for _, c := range []struct {
		state         int
		usable, stale bool
	}{
		{netlink.NUD_STALE, true, true},
		{netlink.NUD_REACHABLE, true, false},
		{netlink.NUD_NOARP, true, false},
		{netlink.NUD_PROBE, true, false},
		{netlink.NUD_FAILED, false, false},
		{netlink.NUD_PERMANENT, true, false},
	} {
		mac := otherMAC
		if c.state == netlink.NUD_FAILED {
			mac = nil
		}
		require.NoError(t, top.Rtr.NeighState("r1", "10.0.2.2", mac, c.state))
		soon(t, func() bool {
			_, ok := n.MAC()
			return ok == c.usable && n.Stale() == c.stale
		}, c.state)
	}

	require.NoError(t, top.Rtr.DelNeigh("r1", "10.0.2.2"))
	soon(t, func() bool { _, ok := n.MAC(); return !ok })
	inStep(t, top, table)
}

// A08: a host that gets another MAC and says so.
func TestNeighbourChangesMAC(t *testing.T) {
	top := nettest.T0(t)
	// The kernel ignores a change within locktime of the last one, a second by default.
	require.NoError(t, top.Rtr.Sysctl("net.ipv4.neigh.r1.locktime", "0"))
	table := watch(t, top)
	table.Resolve([]Request{{port1, nettest.AddrD0}})
	n := reaches(t, table, port1, nettest.AddrD0, nettest.MACd0)

	require.NoError(t, top.Dst.SetMAC("d0", otherMAC))
	c, err := top.Dst.OpenPacket("d0")
	require.NoError(t, err)
	defer c.Close()
	arp := append([]byte{0, 1, 8, 0, 6, 4, 0, 2}, otherMAC...)
	arp = append(append(arp, nettest.AddrD0.AsSlice()...), otherMAC...)
	arp = append(arp, nettest.AddrD0.AsSlice()...)
	require.NoError(t, c.Send(nettest.EthernetType(net.HardwareAddr{255, 255, 255, 255, 255, 255}, otherMAC, 0x0806, arp)))
	require.Same(t, n, reaches(t, table, port1, nettest.AddrD0, otherMAC))
}

func TestResolve(t *testing.T) {
	top := nettest.T0(t)
	table := watch(t, top)
	for _, r := range []struct {
		req Request
		mac net.HardwareAddr
	}{
		{Request{port1, nettest.AddrD0}, nettest.MACd0},
		{Request{port1, nettest.Addr6D0}, nettest.MACd0},
		{Request{port0, nettest.AddrS0}, nettest.MACs0},
		{Request{port0, nettest.Addr6S0}, nettest.MACs0},
	} {
		table.Resolve([]Request{r.req, r.req})
		reaches(t, table, r.req.Port, r.req.Addr, r.mac)
	}
	require.Equal(t, uint64(4), table.Stats().ResolveAsked)
	require.Equal(t, uint64(4), table.Stats().ResolveRepeated)

	nobody := netip.MustParseAddr("10.0.2.99")
	table.Resolve([]Request{{port1, nobody}, {7, nobody}, {-1, nobody}, {port1, netip.Addr{}}, {port1, netip.MustParseAddr("224.0.0.5")}})
	soon(t, func() bool { return table.Stats().ResolveFailed == 3 && table.Stats().ResolveAsked == 6 })
	n := table.Snapshot().Neighbour(port1, nobody)
	if n != nil {
		_, ok := n.MAC()
		require.False(t, ok)
	}
}

// The kernel is told that a stale neighbour is in use, and verifies it.
func TestResolveVerifiesStaleNeighbours(t *testing.T) {
	top := nettest.T0(t)
	require.NoError(t, top.Rtr.Sysctl("net.ipv4.neigh.r1.delay_first_probe_time", "1"))
	table := watch(t, top)
	require.NoError(t, top.Rtr.NeighState("r1", "10.0.2.2", nettest.MACd0, netlink.NUD_STALE))
	n := reaches(t, table, port1, nettest.AddrD0, nettest.MACd0)
	require.True(t, n.Stale())
	table.Resolve([]Request{{port1, nettest.AddrD0}})
	soon(t, func() bool { return !n.Stale() })
	reaches(t, table, port1, nettest.AddrD0, nettest.MACd0)
}

// A flood to nobody costs the kernel a bounded number of requests.
func TestResolveIsLimited(t *testing.T) {
	top := nettest.T0(t)
	table := watch(t, top)
	start := time.Now()
	const num = 20000
	for i := range num {
		table.Resolve([]Request{{port1, netip.AddrFrom4([4]byte{10, 0, 2, byte(i)})}})
	}
	var s Stats
	soon(t, func() bool { s = table.Stats(); return s.ResolveAsked+s.ResolveRepeated+s.ResolveLimited == num })
	seconds := time.Since(start).Seconds() + 1
	require.LessOrEqual(t, float64(s.ResolveAsked), resolveBurst+resolveRate*seconds)
	require.LessOrEqual(t, float64(s.ResolveAsked), 256*seconds/resolveGap.Seconds())
	require.NotZero(t, s.ResolveRepeated)
}
