//go:build vm

package vmtest_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/nettest"
)

// pinged requires that a host answers. It is given more time with every request.
func pinged(t *testing.T, from *nettest.NS, dst netip.Addr) {
	t.Helper()
	// The first request may be lost: it finds nobody's MAC known.
	for timeout := 200 * time.Millisecond; timeout < 10*time.Second; timeout *= 2 {
		pings, err := from.Ping(t.Context(), dst, nettest.PingOptions{Timeout: timeout})
		require.NoError(t, err)
		if pings.Received == 1 {
			return
		}
	}
	require.FailNow(t, "no answer", "ping %s from %s", dst, from.Name())
}

// transfer moves a file over TCP and compares hashes.
func transfer(t *testing.T, from, to *nettest.NS, server netip.Addr, size int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), stepTimeout)
	defer cancel()
	got, err := nettest.TransferTCP(ctx, from, to, server, size)
	require.NoError(t, err)
	t.Logf("tcp to %s: %d KiB in %s", server, size>>10, got.Elapsed.Round(time.Millisecond))
}

// arrivals are what became of datagrams that were sent once each.
type arrivals struct{ sent, unique, duplicate, corrupt uint64 }

// exchange sends datagrams of many flows to one socket and counts what arrives until all are there or nothing has come for a second. At
// most 16 are under way, so that no ring on the way overflows and weir drops few, however slow the guest.
func exchange(t *testing.T, from, to *nettest.NS, dst netip.Addr, num, flows int) (a arrivals) {
	t.Helper()
	const window, patience = 16, time.Second
	server, err := to.ListenPacket("udp", netip.AddrPortFrom(dst, 0).String())
	require.NoError(t, err)
	defer server.Close()
	socks := make([]net.Conn, flows)
	for i := range socks {
		socks[i], err = from.Dial(t.Context(), "udp", server.LocalAddr().String())
		require.NoError(t, err)
		defer socks[i].Close()
	}
	seen, b := make([]bool, num), make([]byte, 1<<16)
	receive := func() bool {
		require.NoError(t, server.SetReadDeadline(time.Now().Add(patience)))
		k, _, err := server.ReadFrom(b)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return false
		}
		require.NoError(t, err)
		switch n := datagramNumber(b[:k]); {
		case n >= uint64(num) || !bytes.Equal(b[:k], datagram(n)):
			a.corrupt++
		case seen[n]:
			a.duplicate++
		default:
			seen[n] = true
			a.unique++
		}
		return true
	}
	lost := uint64(0)
	for ; a.sent < uint64(num); a.sent++ {
		if a.sent >= a.unique+lost+window && !receive() {
			lost = a.sent - a.unique
		}
		_, err := socks[a.sent%uint64(flows)].Write(datagram(a.sent))
		require.NoError(t, err)
	}
	for a.unique < a.sent && receive() {
	}
	return a
}

// datagram is the datagram of a number: no other can be taken for it.
func datagram(n uint64) []byte {
	r := rand.New(rand.NewPCG(n, 1))
	b := make([]byte, 8+r.IntN(1392))
	binary.BigEndian.PutUint64(b, n)
	for i := 8; i < len(b); i++ {
		b[i] = byte(r.Uint32())
	}
	return b
}

func datagramNumber(b []byte) uint64 {
	if len(b) < 8 {
		return ^uint64(0)
	}
	return binary.BigEndian.Uint64(b)
}

// oneCopyEach sends datagrams of many flows through weir and requires that each arrives once or is in a counter, and that what arrives is
// what weir says it has delivered. It returns the reading after.
func (r *router) oneCopyEach(t *testing.T, dst netip.Addr, num int) stats {
	t.Helper()
	before, refused := r.atRest(t), tapDrops(t, r.seg.src, "s0")
	a := exchange(t, r.seg.src, r.seg.dst, dst, num, 64)
	after := r.atRest(t)
	delivered := after.port(t, r.seg.out).Delivered - before.port(t, r.seg.out).Delivered
	lost := tapDrops(t, r.seg.src, "s0") - refused + r.dropped(after) - r.dropped(before)
	seen := fmt.Sprintf("%+v, weir delivered %d, lost on the way and counted %d %v, by queue: %v",
		a, delivered, lost, more(before.Totals.Dropped, after.Totals.Dropped), after.received())
	t.Logf("udp to %s: %s", dst, seen)
	require.Zero(t, a.duplicate+a.corrupt, seen)
	require.Equal(t, a.unique, delivered, "what arrived is what weir delivered: %s", seen)
	require.Equal(t, a.sent, a.unique+lost, "each datagram arrived or was counted: %s", seen)
	require.Greater(t, a.unique, a.sent/2, seen)
	return after
}

// dropped are the packets that weir has dropped, each counted once: virtio_net counts what the program drops at the door among its own
// drops too, so weir says door_… and device_rx of one packet, and offered is too high by as many.
func (r *router) dropped(s stats) uint64 {
	n := total(s.Totals.Dropped)
	if r.seg.driver == "virtio_net" {
		door := uint64(0)
		for reason, k := range s.Totals.Dropped {
			if strings.HasPrefix(reason, "door_") {
				door += k
			}
		}
		n -= min(door, s.Totals.Dropped["device_rx"])
	}
	return n
}

// more are the counters that have grown, and by how much.
func more(before, after map[string]uint64) map[string]uint64 {
	grown := map[string]uint64{}
	for reason, n := range after {
		if n > before[reason] {
			grown[reason] = n - before[reason]
		}
	}
	return grown
}

// tapDrops are the packets that a host's tap did not hand to QEMU.
func tapDrops(t *testing.T, ns *nettest.NS, link string) uint64 {
	t.Helper()
	l, err := ns.Link(link)
	require.NoError(t, err)
	return l.Attrs().Statistics.TxDropped
}
