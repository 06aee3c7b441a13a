package nettest_test

import (
	"context"
	"io"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/nettest"
)

// forwardingT0 is T0 with the kernel as the router.
func forwardingT0(t *testing.T) *nettest.Topology {
	t.Helper()
	top := nettest.T0(t)
	require.NoError(t, top.Rtr.Sysctl("net.ipv4.ip_forward", "1"))
	require.NoError(t, top.Rtr.Sysctl("net.ipv6.conf.all.forwarding", "1"))
	return top
}

func TestPing(t *testing.T) {
	top := forwardingT0(t)
	for _, dst := range []netip.Addr{nettest.AddrD0, nettest.Addr6D0} {
		p, err := top.Src.Ping(t.Context(), dst, nettest.PingOptions{Count: 3, Timeout: 5 * time.Second, Size: 1000})
		require.NoError(t, err)
		require.Equal(t, [2]int{3, 3}, [2]int{p.Sent, p.Received}, dst)
		require.Len(t, p.RTT, 3)
		p, err = top.Src.Ping(t.Context(), dst, nettest.PingOptions{TTL: 1, Timeout: 50 * time.Millisecond})
		require.NoError(t, err)
		require.Equal(t, [2]int{1, 0}, [2]int{p.Sent, p.Received}, "hop limit 1 does not get through a router")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := top.Src.Ping(ctx, netip.MustParseAddr("10.0.2.99"), nettest.PingOptions{Timeout: time.Hour})
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestEcho(t *testing.T) {
	top := forwardingT0(t)
	for _, c := range []struct{ network, address string }{
		{"tcp", "10.0.2.2:0"}, {"tcp", "[2001:db8:2::2]:0"}, {"udp", "10.0.2.2:0"}, {"udp", "[2001:db8:2::2]:0"},
	} {
		e, err := top.Dst.Echo(c.network, c.address)
		require.NoError(t, err)
		conn, err := top.Src.Dial(t.Context(), c.network, e.Addr())
		require.NoError(t, err)
		require.NoError(t, conn.SetDeadline(time.Now().Add(10*time.Second)))
		_, err = conn.Write([]byte("hello"))
		require.NoError(t, err)
		b := make([]byte, 5)
		_, err = io.ReadFull(conn, b)
		require.NoError(t, err)
		require.Equal(t, "hello", string(b))
		require.NoError(t, e.Close(), "with a connection open")
		require.NoError(t, conn.Close())
	}
	_, err := top.Dst.Echo("unix", "x")
	require.Error(t, err)
}

func TestTransferTCP(t *testing.T) {
	top := forwardingT0(t)
	for _, dst := range []netip.Addr{nettest.AddrD0, nettest.Addr6D0} {
		tr, err := nettest.TransferTCP(t.Context(), top.Src, top.Dst, dst, 3_000_001)
		require.NoError(t, err)
		require.Equal(t, int64(3_000_001), tr.Bytes)
		require.NotZero(t, tr.SHA256)
	}
	require.NoError(t, top.Rtr.Sysctl("net.ipv4.ip_forward", "0"))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := nettest.TransferTCP(ctx, top.Src, top.Dst, nettest.AddrD0, 1)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestQueuesOfT0(t *testing.T) {
	top := nettest.T0With(t, nettest.TopologyOptions{RX: 4, TX: 2, Suffix: "-q"})
	l, err := top.Rtr.Link("r1")
	require.NoError(t, err)
	require.Equal(t, [2]int{4, 2}, [2]int{l.Attrs().NumRxQueues, l.Attrs().NumTxQueues})
	require.Equal(t, nettest.MACr1, l.Attrs().HardwareAddr)
}
