package fib

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"weir/internal/nettest"
)

// ports of T0's router.
const (
	port0 = iota
	port1
)

// watch follows the router of T0 with r0 and r1 as ports.
func watch(t testing.TB, top *nettest.Topology, change ...func(*Config)) *Table {
	t.Helper()
	c := Config{Ports: []PortRef{{Index: port1, Name: "r1"}, {Index: port0, Name: "r0"}}}
	for _, f := range change {
		f(&c)
	}
	var table *Table
	err := top.Rtr.Do(func() (err error) {
		table, err = Watch(context.Background(), c)
		return err
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, table.Close()) })
	return table
}

// soon waits until check is true. Changes are visible within milliseconds; the margin is for a busy machine.
func soon(t *testing.T, check func() bool, what ...any) {
	t.Helper()
	require.Eventually(t, check, 10*time.Second, time.Millisecond, what...)
}

// describe puts a route into words that tests can compare.
func describe(r *Route) string {
	switch {
	case r == nil:
		return "none"
	case r.Kind == Unsupported:
		return fmt.Sprintf("unsupported: %v", r.Reason)
	case r.Kind != Forward:
		return r.Kind.String()
	case r.Via.IsValid():
		return fmt.Sprintf("port %d via %v mtu %d", r.Egress, r.Via, r.MTU)
	}
	return fmt.Sprintf("port %d mtu %d", r.Egress, r.MTU)
}

func lookup(table *Table, dst string) string {
	return describe(table.Snapshot().Lookup(netip.MustParseAddr(dst)))
}

// leads waits until Lookup(dst) is described by want.
func leads(t *testing.T, table *Table, dst, want string) {
	t.Helper()
	got := ""
	ok := false
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if got = lookup(table, dst); got == want {
			ok = true
			break
		}
	}
	require.True(t, ok, "%s leads to %q, want %q", dst, got, want)
}

func TestWatchT0(t *testing.T) {
	top := nettest.T0(t)
	table := watch(t, top)
	for dst, want := range map[string]string{
		"10.0.1.2":       "port 0 mtu 0",
		"10.0.2.2":       "port 1 mtu 0",
		"10.0.1.1":       "local",
		"10.0.2.1":       "local",
		"10.0.2.255":     "broadcast",
		"127.0.0.1":      "local",
		"192.0.2.1":      "none",
		"224.0.0.5":      "none",
		"2001:db8:1::2":  "port 0 mtu 0",
		"2001:db8:2::99": "port 1 mtu 0",
		"2001:db8:2::1":  "local",
		"::1":            "local",
		"ff02::1":        "multicast",
		"2001:db8:3::1":  "none",
	} {
		require.Equal(t, want, lookup(table, dst), dst)
	}
	s := table.Snapshot()
	p := s.Port(port1)
	require.Equal(t, "r1", p.Name)
	require.Equal(t, [6]byte(nettest.MACr1), p.MAC)
	require.True(t, p.Up)
	require.Equal(t, 1500, p.MTU)
	require.Contains(t, p.Addrs, netip.MustParsePrefix("10.0.2.1/24"))
	require.Contains(t, p.Addrs, netip.MustParsePrefix("2001:db8:2::1/64"))
	require.Contains(t, s.Locals(), netip.MustParsePrefix("10.0.1.1/32"))
	require.Contains(t, s.Locals(), netip.MustParsePrefix("2001:db8:1::1/128"))
	require.Contains(t, s.Locals(), netip.MustParsePrefix("127.0.0.0/8"))
	require.NotContains(t, s.Locals(), netip.MustParsePrefix("10.0.1.255/32"))
	require.Contains(t, s.Broadcasts(), netip.MustParsePrefix("10.0.1.255/32"))
	require.Empty(t, s.ForeignRules())
	require.NoError(t, table.Err())
}

// ip runs iproute2 in the router: the tests speak to the kernel as an operator does, in another implementation than ours.
func ip(t *testing.T, top *nettest.Topology, args string) {
	t.Helper()
	cmd := top.Rtr.Command(context.Background(), "ip", strings.Fields(args)...)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, top.Rtr.Run(cmd), "ip %s: %s", args, &out)
}

// contents returns all a snapshot answers, neighbours included, for comparison.
func contents(s *Snapshot) map[string]string {
	all := map[string]string{}
	for p, r := range s.Routes() {
		all["route "+p.String()] = describe(r)
	}
	for i, table := range s.neighbours {
		for p, n := range table.All() {
			if mac, ok := n.MAC(); ok { // the kernel does not notify of entries that it has just begun to resolve
				all[fmt.Sprintf("neighbour %d %v", i, p)] = fmt.Sprintf("%012x", mac)
			}
		}
		all[fmt.Sprintf("port %d", i)] = fmt.Sprintf("%+v", *s.Port(i))
	}
	all["locals"] = fmt.Sprint(s.Locals(), s.Broadcasts())
	all["rules"] = fmt.Sprint(s.ForeignRules())
	for k := range numKinds {
		all["count "+k.String()] = fmt.Sprint(s.Count(k))
	}
	return all
}

// inStep checks that the table comes to hold exactly what a new one reads from the kernel.
func inStep(t *testing.T, top *nettest.Topology, table *Table) {
	t.Helper()
	var got, want map[string]string
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		fresh := watch(t, top)
		got, want = contents(table.Snapshot()), contents(fresh.Snapshot())
		require.NoError(t, fresh.Close())
		if maps.Equal(got, want) {
			return
		}
	}
	require.Equal(t, want, got)
}

func TestRoutesFollow(t *testing.T) {
	top := nettest.T0(t)
	table := watch(t, top)
	for _, step := range []struct{ do, dst, want string }{
		{"route add 192.0.2.0/24 via 10.0.2.2", "192.0.2.1", "port 1 via 10.0.2.2 mtu 0"},
		{"route replace 192.0.2.0/24 via 10.0.1.2 mtu 1400", "192.0.2.1", "port 0 via 10.0.1.2 mtu 1400"},
		{"route add 192.0.2.0/24 via 10.0.2.2 metric 5", "192.0.2.1", "port 0 via 10.0.1.2 mtu 1400"},
		{"route del 192.0.2.0/24 via 10.0.1.2", "192.0.2.1", "port 1 via 10.0.2.2 mtu 0"},
		{"route add default via 10.0.1.2", "192.0.3.1", "port 0 via 10.0.1.2 mtu 0"},
		{"route add blackhole 192.0.2.128/25", "192.0.2.129", "blackhole"},
		{"route add unreachable 192.0.2.160/27", "192.0.2.161", "unreachable"},
		{"route add prohibit 192.0.2.176/28", "192.0.2.177", "prohibit"},
		{"route add throw 192.0.2.184/29", "192.0.2.185", "none"},
		{"route del throw 192.0.2.184/29", "192.0.2.185", "prohibit"},
		{"route del unreachable 192.0.2.160/27", "192.0.2.161", "blackhole"},
		{"route del blackhole 192.0.2.128/25", "192.0.2.161", "port 1 via 10.0.2.2 mtu 0"},
		{"route del 192.0.2.0/24", "192.0.2.1", "port 0 via 10.0.1.2 mtu 0"},

		// The order among routes with one metric: append goes behind, prepend before, replace takes the first.
		{"route add 198.51.100.0/24 via 10.0.2.2", "198.51.100.1", "port 1 via 10.0.2.2 mtu 0"},
		{"route append 198.51.100.0/24 via 10.0.2.3", "198.51.100.1", "port 1 via 10.0.2.2 mtu 0"},
		{"route prepend 198.51.100.0/24 via 10.0.2.4", "198.51.100.1", "port 1 via 10.0.2.4 mtu 0"},
		{"route replace 198.51.100.0/24 via 10.0.2.5", "198.51.100.1", "port 1 via 10.0.2.5 mtu 0"},
		{"route del 198.51.100.0/24 via 10.0.2.5", "198.51.100.1", "port 1 via 10.0.2.2 mtu 0"},
		{"route del 198.51.100.0/24 via 10.0.2.2", "198.51.100.1", "port 1 via 10.0.2.3 mtu 0"},

		// B02.
		{"route add 203.0.113.0/25 via inet6 fe80::2 dev r1", "203.0.113.1", "port 1 via fe80::2 mtu 0"},
		{"route add 203.0.113.128/25 via 192.0.2.9 dev r1 onlink", "203.0.113.129", "port 1 via 192.0.2.9 mtu 0"},

		// What is not supported decides for its whole prefix.
		{"route add 100.64.0.0/24 nexthop via 10.0.1.2 nexthop via 10.0.2.2", "100.64.0.1", "unsupported: multipath"},
		{"route del 100.64.0.0/24", "100.64.0.1", "port 0 via 10.0.1.2 mtu 0"},
		{"route add 100.64.1.0/24 via 10.0.2.2", "100.64.1.1", "port 1 via 10.0.2.2 mtu 0"},
		{"route add 100.64.1.0/24 tos 0x10 via 10.0.2.3 metric 9", "100.64.1.1", "unsupported: type of service"},
		{"route del 100.64.1.0/24 tos 0x10", "100.64.1.1", "port 1 via 10.0.2.2 mtu 0"},
		{"nexthop add id 7 via 10.0.2.2 dev r1", "192.0.3.1", "port 0 via 10.0.1.2 mtu 0"},
		{"route add 100.64.2.0/24 nhid 7", "100.64.2.1", "unsupported: next hop object"},
		{"nexthop del id 7", "100.64.2.1", "port 0 via 10.0.1.2 mtu 0"},

		{"link add x0 type veth peer name x1", "192.0.3.1", "port 0 via 10.0.1.2 mtu 0"},
		{"link set x0 up", "192.0.3.1", "port 0 via 10.0.1.2 mtu 0"},
		{"route add 100.64.3.0/24 dev x0", "100.64.3.1", "not a port"},
		{"link del x0", "100.64.3.1", "port 0 via 10.0.1.2 mtu 0"},

		// Table local is asked first, however long the prefixes in table main are.
		{"route add 100.64.4.0/24 via 10.0.2.2", "100.64.4.1", "port 1 via 10.0.2.2 mtu 0"},
		{"route add local 100.64.4.0/23 dev lo", "100.64.4.1", "local"},
		{"route add 100.64.5.1/32 via 10.0.2.2", "100.64.5.1", "local"},
		{"route del local 100.64.4.0/23 dev lo", "100.64.5.1", "port 1 via 10.0.2.2 mtu 0"},
		{"route del 100.64.5.1/32", "100.64.4.1", "port 1 via 10.0.2.2 mtu 0"},
		{"route add throw 100.64.6.0/24 table local", "100.64.6.1", "unsupported: route type"},

		{"route add 2001:db8:9::/48 via 2001:db8:2::2", "2001:db8:9::1", "port 1 via 2001:db8:2::2 mtu 0"},
		{"route add 2001:db8:9::/48 via 2001:db8:1::2 metric 5 mtu 1400", "2001:db8:9::1", "port 0 via 2001:db8:1::2 mtu 1400"},
		{"route del 2001:db8:9::/48 metric 5", "2001:db8:9::1", "port 1 via 2001:db8:2::2 mtu 0"},
		{"route replace 2001:db8:9::/48 via 2001:db8:1::3", "2001:db8:9::1", "port 0 via 2001:db8:1::3 mtu 0"},
		{"route append 2001:db8:9::/48 via 2001:db8:2::2", "2001:db8:9::1", "unsupported: multipath"},
		{"route del 2001:db8:9::/48 via 2001:db8:1::3", "2001:db8:9::1", "port 1 via 2001:db8:2::2 mtu 0"},
		{"route append 2001:db8:9::/48 via 2001:db8:2::3", "2001:db8:9::1", "unsupported: multipath"},
		{"route replace 2001:db8:9::/48 via 2001:db8:2::4", "2001:db8:9::1", "port 1 via 2001:db8:2::4 mtu 0"},
		{"route add 2001:db8:9::/48 from 2001:db8:1::/64 via 2001:db8:2::2 metric 99", "2001:db8:9::1", "unsupported: source prefix"},
		{"route del 2001:db8:9::/48 from 2001:db8:1::/64 via 2001:db8:2::2 metric 99", "2001:db8:9::1", "port 1 via 2001:db8:2::4 mtu 0"},
		{"route add blackhole 2001:db8:9:8000::/49", "2001:db8:9:8000::1", "blackhole"},
		{"route add unreachable 2001:db8:9:c000::/50", "2001:db8:9:c000::1", "unreachable"},
		{"route add prohibit 2001:db8:9:e000::/51", "2001:db8:9:e000::1", "prohibit"},
		{"route add default via fe80::2 dev r0", "2001:db8:10::1", "port 0 via fe80::2 mtu 0"},
	} {
		args := step.do
		if strings.HasPrefix(args, "route") && strings.Contains(step.dst, ":") {
			args = "-6 " + args
		}
		ip(t, top, args)
		leads(t, table, step.dst, step.want)
	}
	inStep(t, top, table)
	require.Zero(t, table.Stats().Resyncs)
	require.Zero(t, table.Stats().Overruns)
}

// The kernel says nothing about the IPv4 routes it drops with a link, an address or a next hop object (B01).
func TestSilentDeletions(t *testing.T) {
	top := nettest.T0(t)
	table := watch(t, top)
	ip(t, top, "route add default via 10.0.1.2")
	ip(t, top, "route add 192.0.2.0/24 via 10.0.2.2")
	ip(t, top, "nexthop add id 7 via 10.0.2.2 dev r1")
	ip(t, top, "route add 192.0.3.0/24 nhid 7")
	ip(t, top, "addr add 10.0.1.99/32 dev r0")
	ip(t, top, "route add 192.0.4.0/24 via 10.0.2.2 src 10.0.1.99")
	leads(t, table, "192.0.4.1", "port 1 via 10.0.2.2 mtu 0")
	const defaultRoute = "port 0 via 10.0.1.2 mtu 0"

	ip(t, top, "addr del 10.0.1.99/32 dev r0")
	leads(t, table, "192.0.4.1", defaultRoute)
	leads(t, table, "192.0.3.1", "unsupported: next hop object")

	ip(t, top, "link set r1 down")
	leads(t, table, "192.0.2.1", defaultRoute)
	leads(t, table, "192.0.3.1", defaultRoute)
	leads(t, table, "10.0.2.2", defaultRoute)
	leads(t, table, "2001:db8:2::2", "none")
	soon(t, func() bool { return !table.Snapshot().Port(port1).Up })
	inStep(t, top, table)

	ip(t, top, "link set r1 up")
	leads(t, table, "10.0.2.2", "port 1 mtu 0")
	soon(t, func() bool { return table.Snapshot().Port(port1).Up })
	require.NoError(t, top.Rtr.Ready("r1"))
	inStep(t, top, table)
	require.Equal(t, defaultRoute, lookup(table, "192.0.2.1"), "it does not come back")
}

// A dead next hop is passed over, also where the kernel keeps the route.
func TestDeadNextHop(t *testing.T) {
	top := nettest.T0(t)
	table := watch(t, top)
	require.NoError(t, top.Rtr.Sysctl("net.ipv4.conf.r1.ignore_routes_with_linkdown", "1"))
	ip(t, top, "route add default via 10.0.1.2")
	ip(t, top, "route add 192.0.2.0/24 via 10.0.2.2")
	leads(t, table, "192.0.2.1", "port 1 via 10.0.2.2 mtu 0")
	require.NoError(t, top.Dst.Down("d0")) // r1 loses its carrier
	leads(t, table, "192.0.2.1", "port 0 via 10.0.1.2 mtu 0")
	require.NoError(t, top.Dst.Up("d0"))
	leads(t, table, "192.0.2.1", "port 1 via 10.0.2.2 mtu 0")
	inStep(t, top, table)
}

func TestLinkDeletedAndMadeAgain(t *testing.T) {
	top := nettest.T0(t)
	table := watch(t, top)
	require.NoError(t, top.Rtr.Neigh("r1", "10.0.2.2", nettest.MACd0))
	ip(t, top, "route add 192.0.2.0/24 via 10.0.2.2")
	leads(t, table, "192.0.2.1", "port 1 via 10.0.2.2 mtu 0")
	old := table.Snapshot()
	next := old.Lookup(netip.MustParseAddr("192.0.2.1")).Next
	soon(t, func() bool { _, ok := next.MAC(); return ok })

	require.NoError(t, top.Rtr.Delete("r1"))
	soon(t, func() bool { return table.Snapshot().Port(port1).Ifindex == 0 })
	leads(t, table, "192.0.2.1", "none")
	_, ok := next.MAC()
	require.False(t, ok, "whoever holds an old route does not send to where nobody is")
	require.NotZero(t, old.Port(port1).Ifindex, "a snapshot never changes")
	inStepWithout(t, table)

	require.NoError(t, nettest.Veth(top.Rtr, "r1", top.Dst, "d0", nettest.VethOptions{MTU: 1400}))
	require.NoError(t, top.Rtr.Addr("r1", "10.0.2.1/24"))
	require.NoError(t, top.Rtr.Up("r1"))
	require.NoError(t, top.Dst.Up("d0"))
	require.NoError(t, top.Rtr.Neigh("r1", "10.0.2.2", nettest.MACd0))
	ip(t, top, "route add 192.0.2.0/24 via 10.0.2.2")
	leads(t, table, "192.0.2.1", "port 1 via 10.0.2.2 mtu 0")
	soon(t, func() bool {
		p := table.Snapshot().Port(port1)
		return p.Up && p.MTU == 1400 && p.Ifindex != old.Port(port1).Ifindex
	})
	soon(t, func() bool {
		n := table.Snapshot().Neighbour(port1, nettest.AddrD0)
		return n != nil && n == table.Snapshot().Lookup(netip.MustParseAddr("192.0.2.1")).Next && n != next
	})
	require.NoError(t, top.Rtr.Ready("r1"))
	inStep(t, top, table)
}

// inStepWithout checks a table whose second port is gone, which a new Watch refuses: against no routes through it.
func inStepWithout(t *testing.T, table *Table) {
	t.Helper()
	soon(t, func() bool {
		for _, r := range table.Snapshot().Routes() {
			if r.Kind == Forward && r.Egress == port1 {
				return false
			}
		}
		return true
	})
}

func TestFlapAndMTU(t *testing.T) {
	top := nettest.T0(t)
	table := watch(t, top)
	for range 20 {
		require.NoError(t, top.Rtr.Down("r0"))
		require.NoError(t, top.Rtr.Up("r0"))
	}
	for _, mtu := range []int{1400, 1500} {
		require.NoError(t, top.Rtr.SetMTU("r1", mtu))
		soon(t, func() bool { return table.Snapshot().Port(port1).MTU == mtu })
	}
	require.NoError(t, top.Rtr.Ready("r0"))
	inStep(t, top, table)
}

func TestOwnAddressesFollow(t *testing.T) {
	top := nettest.T0(t)
	table := watch(t, top)
	select {
	case <-table.Changes():
	case <-time.After(10 * time.Second):
		t.Fatal("no change signalled for the first snapshot")
	}
	for _, c := range []struct{ cidr, host string }{{"10.9.9.9/24", "10.9.9.9/32"}, {"2001:db8:99::9/64", "2001:db8:99::9/128"}} {
		require.NoError(t, top.Rtr.Addr("r1", c.cidr))
		host := netip.MustParsePrefix(c.host)
		soon(t, func() bool { return slices.Contains(table.Snapshot().Locals(), host) })
		soon(t, func() bool { return slices.Contains(table.Snapshot().Port(port1).Addrs, netip.MustParsePrefix(c.cidr)) })
		<-table.Changes()
		require.NoError(t, top.Rtr.DelAddr("r1", c.cidr))
		soon(t, func() bool { return !slices.Contains(table.Snapshot().Locals(), host) })
		soon(t, func() bool {
			return !slices.Contains(table.Snapshot().Port(port1).Addrs, netip.MustParsePrefix(c.cidr))
		})
	}
	inStep(t, top, table)
}

func TestForeignRules(t *testing.T) {
	top := nettest.T0(t)
	table := watch(t, top)
	for _, step := range []struct {
		do   string
		want []string
	}{
		{"rule add from 10.0.1.0/24 table 1024 priority 100", []string{"IPv4 rule 100 (table 1024)"}},
		{"rule del priority 100", nil},
		{"-6 rule add fwmark 7 table main priority 32766", []string{"IPv6 rule 32766 (table 254)"}},
		{"-6 rule del fwmark 7 priority 32766", nil},
		{"rule del priority 0", []string{"IPv4 rule 0 (table 255, missing)"}},
		{"rule add priority 0 table local", nil},
		{"rule add not from 10.0.1.0/24 table main priority 5", []string{"IPv4 rule 5 (table 254)"}},
	} {
		ip(t, top, step.do)
		var got []string
		soon(t, func() bool {
			got = nil
			for _, r := range table.ForeignRules() {
				got = append(got, r.String())
			}
			return slices.Equal(got, step.want)
		}, step.do)
	}
}

func TestWatchRefuses(t *testing.T) {
	top := nettest.T0(t)
	for want, ports := range map[string][]PortRef{
		"no such link":   {{Index: 0, Name: "nix"}},
		"must be unique": {{Index: 0, Name: "r0"}, {Index: 0, Name: "r1"}},
		"from 0 to 0":    {{Index: 1, Name: "r0"}},
		"has no name":    {{Index: 0}},
	} {
		err := top.Rtr.Do(func() error { _, err := Watch(context.Background(), Config{Ports: ports}); return err })
		require.ErrorContains(t, err, want)
	}
}

func TestEndOfContextEndsWatch(t *testing.T) {
	top := nettest.T0(t)
	ctx, cancel := context.WithCancel(context.Background())
	var table *Table
	require.NoError(t, top.Rtr.Do(func() (err error) {
		table, err = Watch(ctx, Config{Ports: []PortRef{{Name: "r0"}}})
		return err
	}))
	cancel()
	require.NoError(t, table.Close())
	require.Equal(t, "port 0 mtu 0", lookup(table, "10.0.1.2"), "snapshots stay readable")
	table.Resolve([]Request{{0, nettest.AddrS0}})
}

// When updates come faster than they are read they are lost, which is noticed and mended.
func TestOverrun(t *testing.T) {
	top := nettest.T0(t)
	table := watch(t, top, func(c *Config) { c.ReceiveBuffer = 4096 })
	operator := openOperator(t, top)
	for round := 0; table.Stats().Overruns == 0; round++ {
		require.Less(t, round, 100, "never overrun")
		operator.addRoutes(t, byte(round), 1000)
	}
	soon(t, func() bool { return table.Stats().Resyncs > 0 })
	inStep(t, top, table)
	require.Greater(t, table.Snapshot().Count(Forward), 1000)
	require.NoError(t, table.Err())
}

// operator changes routes of T0's router faster than a process can.
type operator struct {
	conn    *conn
	ifindex int
}

func openOperator(t testing.TB, top *nettest.Topology) *operator {
	t.Helper()
	o := &operator{}
	l, err := top.Rtr.Link("r1")
	require.NoError(t, err)
	o.ifindex = l.Attrs().Index
	require.NoError(t, top.Rtr.Do(func() (err error) {
		o.conn, err = openConn()
		return err
	}))
	t.Cleanup(func() { o.conn.Close() })
	return o
}

// addRoutes adds num host routes from 100.net.0.0 up, in few system calls.
func (o *operator) addRoutes(t testing.TB, net byte, num int) {
	t.Helper()
	o.change(t, unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, net, num)
}

func (o *operator) change(t testing.TB, kind, flags uint16, net byte, num int) {
	t.Helper()
	var batch []byte
	for i := range num {
		body := []byte{unix.AF_INET, 32, 0, 0, unix.RT_TABLE_MAIN, unix.RTPROT_STATIC, unix.RT_SCOPE_UNIVERSE, unix.RTN_UNICAST, 0, 0, 0, 0}
		body = appendAttr(body, unix.RTA_DST, []byte{100, net, byte(i >> 8), byte(i)})
		body = appendAttr(body, unix.RTA_GATEWAY, nettest.AddrD0.AsSlice())
		body = appendAttr(body, unix.RTA_OIF, binary.NativeEndian.AppendUint32(nil, uint32(o.ifindex)))
		batch = append(batch, o.conn.request(kind, flags, body)...)
		if len(batch) > 32<<10 || i == num-1 {
			require.NoError(t, o.conn.send(batch))
			batch = batch[:0]
		}
	}
}
