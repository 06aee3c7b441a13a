package main

import (
	"bytes"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weir/internal/nettest"
)

// TestNeighbourMoves (A08): a host changes its MAC and says so; weir follows the kernel within a second. An entry that has failed is not
// used.
func TestNeighbourMoves(t *testing.T) {
	top := nettest.T0(t)
	for _, key := range []string{"net.ipv4.conf.d0.arp_notify", "net.ipv6.conf.d0.ndisc_notify"} {
		require.NoError(t, top.Dst.Sysctl(key, "1"))
	}
	w := startT0(t, top)
	listen(t, top.Dst, nettest.AddrD0, testPort)
	listen(t, top.Dst, nettest.Addr6D0, testPort)
	pingBothFamilies(t, top) // every neighbour is known now
	in, err := top.Dst.OpenPacket("d0")
	require.NoError(t, err)
	defer in.Close()

	p, p6 := top.P(), top.P6()
	s := sendStream(t, top.Src, "s0", 1000, func(n uint64) []byte { return [][]byte{p, p6}[n%2] })
	t.Run("new MAC", func(t *testing.T) {
		moved := net.HardwareAddr{2, 0, 0, 0, 2, 99}
		time.Sleep(200 * time.Millisecond)
		require.NoError(t, top.Dst.SetMAC("d0", moved))
		told := time.Now()
		for _, addr := range []netip.Addr{nettest.AddrD0, nettest.Addr6D0} {
			require.Eventually(t, func() bool { return slices.Equal(neighbourMAC(t, top.Rtr, "r1", addr), moved) },
				2*time.Second, time.Millisecond, "the kernel's own entry of %s", addr)
		}
		known := time.Now()
		t.Logf("the kernel knew after %s", known.Sub(told).Round(time.Millisecond))
		newMAC := func(family int) func(f nettest.Frame) bool {
			return func(f nettest.Frame) bool { return familyOf(f.Data) == family && bytes.Equal(f.Data[:6], moved) }
		}
		for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
			_, err := in.Expect(time.Until(known.Add(time.Second)), newMAC(family))
			require.NoError(t, err, "family %d", family)
		}
		t.Logf("weir used it at most %s later", time.Since(known).Round(time.Millisecond))
		frames, err := in.Collect(300*time.Millisecond, isTestPacket)
		require.NoError(t, err)
		require.NotEmpty(t, frames)
		for _, f := range frames[len(frames)/2:] {
			require.Equal(t, moved, net.HardwareAddr(f.Data[:6]), "the old MAC is used no more")
		}
	})
	t.Run("failed entry", func(t *testing.T) {
		require.NoError(t, top.Dst.Sysctl("net.ipv4.conf.all.arp_ignore", "8"))
		require.NoError(t, top.Rtr.NeighState("r1", nettest.AddrD0.String(), nil, netlink.NUD_FAILED))
		time.Sleep(200 * time.Millisecond)
		drain(t, in)
		before := w.stats(t)
		frames, err := in.Collect(300*time.Millisecond, func(f nettest.Frame) bool { return familyOf(f.Data) == unix.AF_INET })
		require.NoError(t, err)
		require.Empty(t, frames, "sent to a neighbour that has failed")
		awaitDrop(t, w, before, "r0", "neighbour_unresolved", 50)

		require.NoError(t, top.Dst.Sysctl("net.ipv4.conf.all.arp_ignore", "0"))
		_, err = in.Expect(5*time.Second, func(f nettest.Frame) bool { return familyOf(f.Data) == unix.AF_INET })
		require.NoError(t, err, "after it answers again")
	})
	require.NoError(t, s.stop())
	require.Zero(t, s.refused.Load())
	w.atRest(t)
}

// neighbourMAC is what the kernel holds for the MAC of an address.
func neighbourMAC(t *testing.T, ns *nettest.NS, link string, addr netip.Addr) net.HardwareAddr {
	t.Helper()
	l, err := ns.Link(link)
	require.NoError(t, err)
	list, err := ns.Handle().NeighList(l.Attrs().Index, 0)
	require.NoError(t, err)
	for _, n := range list {
		if n.IP.Equal(addr.AsSlice()) {
			return n.HardwareAddr
		}
	}
	return nil
}

// drain forgets what has arrived.
func drain(t *testing.T, in *nettest.PacketConn) {
	t.Helper()
	for {
		if _, err := in.Recv(time.Millisecond); err != nil {
			return
		}
	}
}
