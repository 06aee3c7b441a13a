package main

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/nettest"
)

// TestForward: with the kernel's forwarding off, everything that hosts do works through weir, whatever the queues and workers.
func TestForward(t *testing.T) {
	for _, c := range []struct {
		name          string
		hosts, rx, tx int // queues of the hosts' links, and of the router's
		cpus          string
	}{
		{"one queue, one worker", 1, 1, 1, "1"},
		{"four queues, one worker", 4, 4, 4, "1"},
		{"four queues, two workers", 4, 4, 4, "0,1"},
		{"four receive queues, one transmit queue", 4, 4, 1, "1"},
		{"four receive queues, two transmit queues, two workers", 4, 4, 2, "0,1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			top := nettest.T0With(t, nettest.TopologyOptions{RX: c.hosts, TX: c.hosts})
			for _, link := range []string{"r0", "r1"} {
				if c.hosts > 1 {
					setChannels(t, top.Rtr, link, c.rx, c.tx)
				}
			}
			requireKernelForwardsNothing(t, top.Rtr)
			w := startRouter(t, top.Rtr, "--port", "r0", "--port", "r1", "--cpus", c.cpus)
			st := w.stats(t)
			require.Len(t, st.Workers, 1+strings.Count(c.cpus, ","))
			for _, p := range st.Ports {
				require.Equal(t, [2]int{c.rx, c.tx}, [2]int{p.RxQueues, p.TxQueues}, "queues of %s", p.Name)
				require.Equal(t, "copy", p.Mode)
			}

			pingBothFamilies(t, top)
			transfer(t, top)
			for _, dst := range []netip.Addr{nettest.AddrD0, nettest.Addr6D0} {
				oneCopyEach(t, top, w, dst)
			}
			requireQueuesUsed(t, w, "r0", c.rx)
			requireKernelForwardsNothing(t, top.Rtr)
			w.stop(t)
			requireDetached(t, top.Rtr, "r0", "r1")
		})
	}
}

// requireKernelForwardsNothing: a kernel that forwards hides the faults of a router beside it.
func requireKernelForwardsNothing(t *testing.T, ns *nettest.NS) {
	t.Helper()
	for _, key := range []string{"net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"} {
		value, err := ns.GetSysctl(key)
		require.NoError(t, err)
		require.Equal(t, "0", value, key)
	}
}

// pingBothFamilies allows the first echo request of each to be lost: it finds nobody's MAC known.
func pingBothFamilies(t *testing.T, top *nettest.Topology) {
	t.Helper()
	for _, dst := range []netip.Addr{nettest.AddrD0, nettest.Addr6D0} {
		const num = 5
		pings, err := top.Src.Ping(t.Context(), dst, nettest.PingOptions{Count: num, Timeout: 300 * time.Millisecond})
		require.NoError(t, err)
		require.GreaterOrEqual(t, pings.Received, num-1, "ping %s", dst)
	}
}

// transfer moves TCP both ways over both families, with the veth's default offloads, and compares hashes.
func transfer(t *testing.T, top *nettest.Topology) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for _, c := range []struct {
		from, to *nettest.NS
		server   netip.Addr
	}{
		{top.Src, top.Dst, nettest.AddrD0},
		{top.Src, top.Dst, nettest.Addr6D0},
		{top.Dst, top.Src, nettest.AddrS0},
		{top.Dst, top.Src, nettest.Addr6S0},
	} {
		const size = 8 << 20
		got, err := nettest.TransferTCP(ctx, c.from, c.to, c.server, size)
		require.NoError(t, err)
		t.Logf("tcp to %s: %d MB in %s", c.server, size>>20, got.Elapsed.Round(time.Millisecond))
	}
}

// oneCopyEach sends datagrams of many flows and requires that each ends once: at the receiver, whose every copy weir delivered, or in a
// counter.
func oneCopyEach(t *testing.T, top *nettest.Topology, w *router, dst netip.Addr) {
	t.Helper()
	const num, flows = 4000, 64
	before, refused := w.atRest(t), droppedBy(t, top.Src, "s0")
	got, err := exchange(t.Context(), top.Src, listen(t, top.Dst, dst, testPort), num, flows)
	require.NoError(t, err)
	after := w.atRest(t)
	delivered := portOf(t, after, "r1").Delivered - portOf(t, before, "r1").Delivered
	lost := droppedBy(t, top.Src, "s0") - refused + sum(after.Totals.Dropped) - sum(before.Totals.Dropped)
	t.Logf("udp to %s: %s; weir delivered %d, lost on the way and counted: %d", dst, got, delivered, lost)
	require.Zero(t, got.duplicate+got.corrupt, "%s", got)
	require.Equal(t, got.unique, delivered, "what arrived is what weir delivered")
	require.Equal(t, uint64(num), got.unique+lost, "each datagram arrived or was counted")
	require.Greater(t, got.unique, uint64(num*9/10))
}

// requireQueuesUsed requires that every receive queue of a port has taken packets.
func requireQueuesUsed(t *testing.T, w *router, port string, num int) {
	t.Helper()
	taken := map[string]uint64{}
	for _, wk := range w.stats(t).Workers {
		for _, s := range wk.Sources {
			taken[s.Name] = s.Counters.Received
		}
	}
	for q := range num {
		name := fmt.Sprintf("%s/%d", port, q)
		require.NotZero(t, taken[name], "packets taken from %s; all queues: %v", name, taken)
	}
}
