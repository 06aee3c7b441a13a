package fib

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/nettest"
)

// ports of T0's router.
const (
	port0 = iota
	port1
)

// watch follows the router of T0 with r0 and r1 as ports.
func watch(t *testing.T, top *nettest.Topology, change ...func(*Config)) *Table {
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
